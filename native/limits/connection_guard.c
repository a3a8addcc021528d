/* Keeps connections that say nothing from shutting the others out, and reads one message of each.
 *
 * slurmctld has 512 connections at once (26.05, conmgr), slurmd and srun 150. slurmdbd has 100 threads, and waits for a
 * connection's next byte for ever. Whoever reaches a port can hold all of them. With this library a new connection
 * takes the place of an old one, once nearly all are taken: of the one that has waited longest for its message. Bytes
 * that Slurm has not read yet are no waiting. Slurm's commands connect before they ask for a token, so a connection
 * first has a moment.
 *
 * A second message that comes with a first takes its place in Slurm's memory. Slurm never frees the first
 * (conmgr_queue_extract_con_fd), and slurmd counts its connection for ever. */
#include "message_guard.h"
#include "slurm_functions.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#define FILES 16384 /* More than conmgr_max_connections may be here. */
/* MAX_CONNECTIONS_DEFAULT: in slurmd its authentication is the first to ask, with no number. */
#define CONNECTIONS 150
#define SPARE(places) ((places) / 16 + 1)
/* srun has a port for each 48 nodes, and they count among its connections. */
#define MOST_OF_CLIENT 32
#ifndef MOMENT_MILLISECONDS
#define MOMENT_MILLISECONDS 500
#endif
#define MOST_OF_DATABASE 96 /* Of MAX_THREAD_COUNT, 100. */
#define MOST_OF_USERS 80
#define MOST_OF_ONE 64
#define MAX_CONNECTIONS "conmgr_max_connections="
#define LOGGED_EACH 100

static int (*real_accept)(int, struct sockaddr *, socklen_t *, int);
static void *(*real_accept_alone)(int, void *);
static int (*real_parameters)(const char *);
static void (*real_init)(int, int, int);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long configured;
static unsigned most;
static struct connection {
    ino_t socket; /* A descriptor's number is given anew, this number is not. */
    uint64_t number;
    long since;
    enum { NONE, WAITS, TAKEN } state;
    uid_t user;
} connections[FILES];
static int past; /* The highest descriptor that was one, and one more. */
static unsigned waiting;
static uint64_t accepted, closed;
static __thread bool comes_alone;

static long milliseconds_now(void) {
    struct timespec time = {0};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* Finds the descriptor's connection, unless that is not one that we accepted. */
static struct connection *find(int file) {
    struct stat status;
    if (file < 0 || file >= past || connections[file].state == NONE)
        return NULL;
    if (!fstat(file, &status) && S_ISSOCK(status.st_mode) && status.st_ino == connections[file].socket)
        return &connections[file];
    waiting -= connections[file].state == WAITS;
    connections[file].state = NONE;
    return NULL;
}

static bool has_unread(int file) {
    int bytes = 0;
    return !ioctl(file, FIONREAD, &bytes) && bytes > 0;
}

static bool is_full(unsigned taken) {
    return guard_is_database() ? waiting + taken > MOST_OF_DATABASE : waiting > most;
}

/* Returns the connection that waits longest, or -1. */
static int find_oldest(int newest, unsigned *taken) {
    int oldest = -1;
    *taken = 0;
    for (int file = 0; file < past; file++) {
        const struct connection *at = find(file);
        *taken += at && at->state == TAKEN;
        bool is_older = at && (oldest < 0 || at->number < connections[oldest].number);
        if (is_older && file != newest && at->state == WAITS && !has_unread(file))
            oldest = file;
    }
    return oldest;
}

/* Gives others the lock, and a connection what is left of its moment. Returns true if its peer has gone. */
static bool leaves(int file, long milliseconds) {
    struct pollfd wanted = {.fd = file, .events = POLLIN};
    uint64_t number = connections[file].number;
    pthread_mutex_unlock(&lock);
    bool is_gone = poll(&wanted, 1, (int)milliseconds) > 0 && !has_unread(file);
    pthread_mutex_lock(&lock);
    return is_gone && find(file) && connections[file].number == number && connections[file].state == WAITS;
}

/* Closes the connection that waits longest, if too many places are taken. Another thread may have closed its descriptor
 * a moment ago, and have it for a question of its own. Slurm asks that again then. */
static void make_room(int newest) {
    unsigned taken = 0;
    int oldest = find_oldest(newest, &taken);
    for (; is_full(taken) && oldest >= 0; oldest = find_oldest(newest, &taken)) {
        long left = connections[oldest].since + MOMENT_MILLISECONDS - milliseconds_now();
        if (left <= 0 || leaves(oldest, left))
            break;
    }
    if (!is_full(taken) || oldest < 0)
        return;
    shutdown(oldest, SHUT_RDWR);
    connections[oldest].state = NONE;
    waiting--;
    if (closed++ % LOGGED_EACH == 0)
        fprintf(stderr, "error: closed a connection that said nothing for a new one, %llu until now\n",
                (unsigned long long)closed);
}

static void note(int file) {
    struct stat status;
    if (file >= FILES || fstat(file, &status))
        return;
    pthread_mutex_lock(&lock);
    waiting -= connections[file].state == WAITS;
    connections[file] = (struct connection){.state = comes_alone ? TAKEN : WAITS,
                                            .socket = status.st_ino,
                                            .number = accepted++,
                                            .since = milliseconds_now()};
    waiting += !comes_alone;
    if (file >= past)
        past = file + 1;
    if (guard_is_database() || waiting > most)
        make_room(file);
    pthread_mutex_unlock(&lock);
}

int accept4(int fd, struct sockaddr *addr, socklen_t *addr_len, int flags) {
    int file = real_accept(fd, addr, addr_len, flags);
    if (file >= 0)
        note(file);
    return file;
}

/* A command waits for such a connection itself (client_guard.c), and keeps those for input and output. */
void *slurm_accept_msg_conn(int fd, void *address) {
    comes_alone = guard_is_client();
    void *connection = real_accept_alone(fd, address);
    comes_alone = false;
    return connection;
}

/* Daemons pass SlurmctldParameters or SlurmdParameters. */
int conmgr_set_params(const char *parameters) {
    const char *at = parameters ? strcasestr(parameters, MAX_CONNECTIONS) : NULL;
    configured = at ? strtoul(at + strlen(MAX_CONNECTIONS), NULL, 10) : 0;
    return real_parameters(parameters);
}

/* Slurm goes by the first call. */
void conmgr_init(int threads, int default_threads, int number) {
    unsigned places = number > 0 ? (unsigned)number : CONNECTIONS;
    if (configured > 0 && configured < FILES)
        places = (unsigned)configured;
    if (!most && places > SPARE(places))
        most = guard_is_client() ? MOST_OF_CLIENT : places - SPARE(places);
    real_init(threads, default_threads, number);
}

bool connection_was_accepted(int file) {
    pthread_mutex_lock(&lock);
    bool is_ours = file >= FILES || find(file);
    pthread_mutex_unlock(&lock);
    return is_ours;
}

bool connection_is_first(int file) {
    pthread_mutex_lock(&lock);
    struct connection *at = find(file);
    bool is_first = !at || at->state == WAITS;
    if (at && is_first) {
        at->state = TAKEN;
        at->user = NOBODY;
        waiting--;
    }
    pthread_mutex_unlock(&lock);
    return is_first;
}

bool connection_is_for(int file, uid_t user) {
    unsigned of_users = 0, of_one = 0;
    pthread_mutex_lock(&lock);
    for (int other = 0; other < past; other++) {
        const struct connection *at = find(other);
        bool is_a_users = at && at->state == TAKEN && at->user != 0 && at->user != SLURM_ID;
        of_users += is_a_users;
        of_one += is_a_users && at->user == user;
    }
    struct connection *own = find(file);
    bool has_place = user == 0 || user == SLURM_ID || (of_users < MOST_OF_USERS && of_one < MOST_OF_ONE);
    if (own && has_place) {
        waiting -= own->state == WAITS;
        own->state = TAKEN;
        own->user = user;
    }
    pthread_mutex_unlock(&lock);
    return has_place;
}

void connection_find(void) {
    *(void **)&real_accept = guard_find("accept4");
    *(void **)&real_accept_alone = guard_find("slurm_accept_msg_conn");
    *(void **)&real_parameters = guard_find("conmgr_set_params");
    *(void **)&real_init = guard_find("conmgr_init");
}
