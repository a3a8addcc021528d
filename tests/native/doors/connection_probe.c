/* Peers of a daemon's port, as words of a letter and a number. "w3" are three that say nothing, and "u3" send bytes
 * that are not read yet. "l3" send them once all others have come. "a3" come to a port of a command's own, not
 * conmgr's. "m3" send a message each, "d3" two of them. "p64" is conmgr_max_connections, and "i64" the number with
 * which the program begins. A message to slurmdbd (TYPE "database") names its user. Says how many messages were
 * refused, and which peers were sent away. */
#include "message_probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PEERS 600
#define PERSIST_INIT 6500
#define MESSAGE_TIMEOUT 2000
#define HEAD 5

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
static int come_to(const void *bytes, size_t size, bool is_alone) {
    int peer = socket(AF_UNIX, SOCK_STREAM, 0);
    if (peer < 0)
        return -1;
    size_t name = strlen(served.address.sun_path + 1) + 1;
    served.peers[served.count++] = peer;
    if (connect(peer, (const struct sockaddr *)&served.address, (socklen_t)(sizeof(sa_family_t) + name)) ||
        send(peer, bytes, size, 0) < 0)
        return -1;
    return is_alone ? conn_g_get_fd(slurm_accept_msg_conn(served.port, NULL)) : accept4(served.port, NULL, NULL, 0);
}

static int come(const void *bytes, size_t size) {
    return come_to(bytes, size, false);
}

static void *speak(void *peer) {
    return send(*(const int *)peer, "late", strlen("late"), 0) < 0 ? peer : NULL;
}

int accept_peer(const char *bytes) {
    return listen_somewhere() ? -1 : come_to(bytes, strlen(bytes), true);
}

/* Peers that say nothing come to a command's port for input and output, one after the other. */
int refuse_silent(const char *number) {
    long refused = 0;
    if (listen_somewhere())
        return 1;
    for (long i = strtol(number, NULL, 10); i > 0; i--) {
        int file = come_to("", 0, true);
        refused += file >= 0 && io_init_msg_read_from_fd(file, &file, NULL);
    }
    return printf("%ld", refused) < 0;
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
    int file = listen_somewhere() ? -1 : come_to(bytes, sizeof(number) + size, true);
    if (is_gone)
        shutdown(served.peers[0], SHUT_RDWR);
    return file < 0 || printf(io_init_msg_read_from_fd(file, &file, NULL) ? "refused" : "read") < 0;
}

static unsigned char byte_of_answer(size_t at) {
    return (unsigned char)(at % 251);
}

/* As Slurm: it waits for its reader, and gives up after a while. */
static bool is_sent(int file, unsigned char *bytes, size_t size) {
    for (size_t sent = 0; sent < size;) {
        struct pollfd wanted = {.fd = file, .events = POLLOUT};
        size_t head = sent < HEAD ? HEAD - sent : 0;
        struct iovec parts[] = {{bytes + sent, head}, {bytes + sent + head, size - sent - head}};
        if (poll(&wanted, 1, MESSAGE_TIMEOUT) <= 0)
            return false;
        ssize_t more = conn_g_sendv(&file, parts, 2);
        if (more < 0 && errno != EAGAIN)
            return false;
        sent += more > 0 ? (size_t)more : 0;
    }
    return true;
}

static bool is_whole(int peer, size_t size) {
    static unsigned char bytes[1 << 16];
    size_t at = 0;
    for (ssize_t length; (length = recv(peer, bytes, sizeof(bytes), 0)) > 0; at += (size_t)length)
        for (ssize_t i = 0; i < length; i++)
            if (bytes[i] != byte_of_answer(at + (size_t)i))
                return false;
    return at == size;
}

/* Answers a number of peers with so many bytes each. They read when all are answered; a "silent" one does not. */
int answer_peers(const char *bytes, const char *how) {
    static unsigned char answer[32 << 20];
    size_t size = strtoul(bytes, NULL, 10);
    bool is_silent = !strcmp(how, "silent");
    long number = is_silent ? 1 : strtol(how, NULL, 10);
    if (size > sizeof(answer) || listen_somewhere())
        return 1;
    for (size_t i = 0; i < size; i++)
        answer[i] = byte_of_answer(i);
    for (long i = 0; i < number; i++) {
        int file = come("", 0);
        if (file < 0 || fcntl(file, F_SETFL, O_NONBLOCK))
            return 1;
        printf("%s ", is_sent(file, answer, size) ? "sent" : "held");
        close(file);
    }
    for (long i = 0; i < number && !is_silent; i++)
        printf("%s ", is_whole(served.peers[i], size) ? "whole" : "cut");
    struct pollfd wanted = {.fd = served.peers[0], .events = POLLRDHUP};
    return is_silent && printf(poll(&wanted, 1, 10 * MESSAGE_TIMEOUT) > 0 ? "left" : "waited for") < 0;
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
    int refused = 0, late = -1;
    pthread_t speaker;
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
            bool is_last = late >= 0 && !rest && i + 1 == number;
            if (is_last && pthread_create(&speaker, NULL, speak, &served.peers[late]))
                return 1;
            late = *word == 'l' ? served.count : late;
            int file = come_to("bytes", *word == 'u' ? strlen("bytes") : 0, *word == 'a');
            if (file < 0 || (is_last && pthread_join(speaker, NULL)))
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
