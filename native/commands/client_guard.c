/* A command's ports: srun, salloc and sattach wait for no stranger, and end for none.
 *
 * Everybody in a job or on a login node reaches these ports. In Slurm's own (26.05) a stranger's connection cancels the
 * job of an srun or salloc that waits for its allocation. srun waits minutes for a first byte at its port for a step's
 * input and output. It has no deadline for the rest. A command takes such connections one after the other. Each that
 * says nothing halves what the command waits for the next one. */
#include "message_guard.h"
#include "slurm_functions.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* slurmstepd sends it as soon as it has connected. */
#ifndef INIT_MILLISECONDS
#define INIT_MILLISECONDS 10000
#endif
#define LEAST_MILLISECONDS 100 /* On a node's network bytes come within a moment. */
#define LEAST_OF_SLURM 1000    /* For less Slurm complains. */
/* It holds a step's key, which is its credential (slurm_cred_get_signature). */
#define LONGEST_INIT (1U << 20)

static int (*file_of)(void *);
static int (*real_init)(int, void *, void *);
static uid_t (*real_uid)(void *);
static void (*forget)(void *);
static __thread bool has_nothing;
static _Atomic long patience = INIT_MILLISECONDS;

bool client_has_accepted(void *connection) {
    return guard_is_client() && connection && connection_was_accepted(file_of(connection));
}

static void lose_patience(void) {
    long halved = patience / 2;
    patience = halved > LEAST_MILLISECONDS ? halved : LEAST_MILLISECONDS;
}

int client_receive(void *connection, void *message, int (*receive)(void *, void *, int)) {
    struct pollfd wanted = {.fd = file_of(connection), .events = POLLIN};
    long timeout = patience > LEAST_OF_SLURM ? patience : LEAST_OF_SLURM;
    int ready = poll(&wanted, 1, (int)patience);
    while (ready < 0 && errno == EINTR)
        ready = poll(&wanted, 1, (int)patience);
    int failed = ready > 0 ? receive(connection, message, (int)timeout) : REFUSED;
    if (failed)
        lose_patience();
    if (ready <= 0)
        errno = ETIMEDOUT;
    return failed;
}

/* Slurm goes on waiting after a message without a type that its own user sent. */
int client_waits_on(void *message) {
    fputs("error: refused what a stranger sent to this command's port\n", stderr);
    forget(message);
    has_nothing = true;
    return 0;
}

uid_t auth_g_get_uid(void *token) {
    bool is_own = has_nothing && !token;
    has_nothing = false;
    return is_own ? getuid() : real_uid(token);
}

static long milliseconds_now(void) {
    struct timespec time = {0};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static bool receive_bytes(int file, unsigned char *bytes, size_t size, long end) {
    while (size > 0) {
        struct pollfd wanted = {.fd = file, .events = POLLIN};
        long left = end - milliseconds_now();
        int ready = left > 0 ? poll(&wanted, 1, (int)left) : 0;
        ssize_t length = ready > 0 ? recv(file, bytes, size, MSG_DONTWAIT) : -1;
        if (length < 0 && ready != 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (length <= 0)
            return false;
        bytes += length;
        size -= (size_t)length;
    }
    return true;
}

/* Has Slurm read what was received. */
static int read_again(const unsigned char *bytes, size_t size, void *message) {
    int file = memfd_create("io_init_msg", MFD_CLOEXEC);
    bool is_there = file >= 0 && write(file, bytes, size) == (ssize_t)size && !lseek(file, 0, SEEK_SET);
    int failed = is_there ? real_init(file, NULL, message) : REFUSED;
    if (file >= 0)
        close(file);
    return failed;
}

/* slurmstepd sends this message first, on a step's connection for input and output. */
int io_init_msg_read_from_fd(int file, void *connection, void *message) {
    const long end = milliseconds_now() + patience;
    uint32_t length = 0;
    int failed = REFUSED;
    if (!guard_is_client())
        return real_init(file, connection, message);
    if (receive_bytes(file, (unsigned char *)&length, sizeof(length), end) && ntohl(length) <= LONGEST_INIT) {
        size_t size = ntohl(length);
        unsigned char *bytes = malloc(sizeof(length) + size);
        if (bytes && receive_bytes(file, bytes + sizeof(length), size, end)) {
            memcpy(bytes, &length, sizeof(length));
            failed = read_again(bytes, sizeof(length) + size, message);
        }
        free(bytes);
    }
    if (failed) {
        lose_patience();
        fputs("error: refused a stranger's connection to a step's input and output\n", stderr);
    }
    return failed;
}

void client_find(void) {
    *(void **)&file_of = guard_find("conn_g_get_fd");
    *(void **)&real_init = guard_find("io_init_msg_read_from_fd");
    *(void **)&real_uid = guard_find("auth_g_get_uid");
    *(void **)&forget = guard_find("slurm_msg_t_init");
}
