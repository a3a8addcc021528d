/* Bounds the memory that whoever reaches a port can make a daemon take.
 *
 * slurmctld and slurmd (26.05, resize_input_buffer) believe the length with which a message begins, before they know
 * who sends it. They fill up to 1 GiB with zeros at once: Kubernetes would end slurmctld for eight bytes. With
 * this library a message takes memory as its bytes come. All long messages that are under way share one bound. slurmdbd
 * (persist_guard.c) has a thread for each connection, and a bound for each. */
#include "message_guard.h"
#include "slurm_functions.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define SHORT (128ULL << 10)
#define MOST_UNDER_WAY (64ULL << 20)
#define PLACES 256
#define LOST_SECONDS 60 /* A connection that says nothing is closed before that (MessageTimeout). */

static int (*real_data)(struct arguments, void *);
static void (*close_connection)(void *);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    const void *connection;
    uint64_t size;
    time_t seen;
} under_way[PLACES];

static time_t now(void) {
    struct timespec time = {0};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

/* Forgets the connection's message. Notes it anew with its size, if that is not 0, and tells whether there is room. */
static bool note(const void *connection, uint64_t size) {
    uint64_t sum = size;
    size_t place = PLACES;
    time_t time = now();
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < PLACES; i++) {
        if (under_way[i].connection == connection || time - under_way[i].seen > LOST_SECONDS) {
            under_way[i].connection = NULL;
            under_way[i].size = 0;
        }
        if (!under_way[i].connection)
            place = i;
        sum += under_way[i].size;
    }
    bool has_room = place < PLACES && sum <= MOST_UNDER_WAY;
    if (size && has_room) {
        under_way[place].connection = connection;
        under_way[place].size = size;
        under_way[place].seen = time;
    }
    pthread_mutex_unlock(&lock);
    return has_room;
}

/* Bytes came. If the message is not whole yet, this has `resize_input_buffer` called. */
int on_rpc_connection_data(struct arguments arguments, void *argument) {
    note(arguments.connection, 0);
    return real_data(arguments, argument);
}

void resize_input_buffer(struct arguments arguments, void *size) {
    if ((uint64_t)size <= SHORT || note(arguments.connection, (uint64_t)size))
        return;
    fprintf(stderr, "error: refused a message of %llu bytes: all under way may have %llu\n", (unsigned long long)size,
            MOST_UNDER_WAY);
    close_connection(arguments.connection);
}

void length_find(void) {
    *(void **)&real_data = guard_find("on_rpc_connection_data");
    *(void **)&close_connection = guard_find("conmgr_queue_close_fd");
    guard_find("resize_input_buffer");
}
