/* Peers of a daemon's port, as words of a letter and a number. "w3" are three that say nothing, and "u3" send bytes
 * that are not read yet. "m3" send a message each, "d3" two of them. "p64" is conmgr_max_connections,
 * and "i64" the number with which the program begins. A message to
 * slurmdbd (TYPE "database") names its user. Says how many messages were refused, and which peers were sent away. */
#include "message_probe.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#define PEERS 600
#define PERSIST_INIT 6500

static struct {
    int port, count, peers[PEERS];
    struct sockaddr_un address;
} served;

static int listen_somewhere(void) {
    struct rlimit files;
    socklen_t size = sizeof(served.address);
    const struct sockaddr_un unnamed = {.sun_family = AF_UNIX};
    if (getrlimit(RLIMIT_NOFILE, &files))
        return 1;
    files.rlim_cur = files.rlim_max;
    served.port = socket(AF_UNIX, SOCK_STREAM, 0);
    return setrlimit(RLIMIT_NOFILE, &files) || served.port < 0 ||
           bind(served.port, (const struct sockaddr *)&unnamed, sizeof(sa_family_t)) || listen(served.port, 1) ||
           getsockname(served.port, (struct sockaddr *)&served.address, &size);
}

/* Returns the daemon's end of a new peer's connection. */
static int come(const void *bytes, size_t size) {
    int peer = socket(AF_UNIX, SOCK_STREAM, 0);
    if (peer < 0)
        return -1;
    size_t name = strlen(served.address.sun_path + 1) + 1;
    served.peers[served.count++] = peer;
    if (connect(peer, (const struct sockaddr *)&served.address, (socklen_t)(sizeof(sa_family_t) + name)) ||
        send(peer, bytes, size, 0) < 0)
        return -1;
    return accept4(served.port, NULL, NULL, 0);
}

int accept_peer(const char *bytes) {
    return listen_somewhere() ? -1 : come(bytes, strlen(bytes));
}

/* A peer claims a length, and sends the rest, or goes away before if that is "gone". */
int send_first(const char *length, const char *rest) {
    unsigned char bytes[64];
    uint32_t number = htonl((uint32_t)strtoul(length, NULL, 10));
    bool is_gone = !strcmp(rest, "gone");
    size_t size = is_gone ? 0 : strlen(rest);
    memcpy(bytes, &number, sizeof(number));
    for (size_t i = 0; i < size; i++)
        bytes[sizeof(number) + i] = (unsigned char)rest[i];
    int file = listen_somewhere() ? -1 : come(bytes, sizeof(number) + size);
    if (is_gone)
        shutdown(served.peers[0], SHUT_RDWR);
    return file < 0 || printf(io_init_msg_read_from_fd(file, &file, NULL) ? "refused" : "read") < 0;
}

static bool is_refused(struct message *message, bool is_database, int file) {
    char text[] = {(char)(PERSIST_INIT >> 8), (char)(PERSIST_INIT & 0xff)};
    void *answer = NULL;
    if (!is_database)
        return slurm_unpack_msg_and_forward(message, NULL, file, message);
    return conn_g_recv(&file, NULL, sizeof(text)) < 0 ||
           slurm_persist_conn_process_msg(NULL, message, text, sizeof(text), &answer, true);
}

int serve_peers(struct message *message, const char *kind, char *words) {
    int refused = 0;
    bool is_database = !strcmp(kind, "database");
    if (is_database)
        message->type = PERSIST_INIT;
    if (listen_somewhere())
        return 1;
    for (char *rest = words, *word = strsep(&rest, ","); word; word = strsep(&rest, ",")) {
        long number = strtol(word + 1, NULL, 10);
        char parameters[64];
        snprintf(parameters, sizeof(parameters), "a,conmgr_max_connections=%ld,b", number);
        if (*word == 'p' && conmgr_set_params(parameters))
            return 1;
        if (*word == 'i')
            conmgr_init(0, 0, (int)number);
        for (long i = 0; *word != 'p' && *word != 'i' && i < number && served.count < PEERS; i++) {
            int file = come("bytes", *word == 'u' ? strlen("bytes") : 0);
            if (file < 0)
                return 1;
            refused += *word == 'm' || *word == 'd' ? is_refused(message, is_database, file) : 0;
            refused += *word == 'd' ? is_refused(message, is_database, file) : 0;
        }
    }
    printf("%d", refused);
    for (int i = 0; i < served.count; i++) {
        char byte;
        if (!recv(served.peers[i], &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT))
            printf(" %d", i);
    }
    return 0;
}
