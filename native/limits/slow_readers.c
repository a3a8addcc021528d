/* Readers that are slow hold none of slurmctld's threads.
 *
 * slurmctld (26.05) has two threads for each CPU. One that answers waits for its reader, for MessageTimeout at most.
 * Everybody may ask for more than the kernel takes at once. With this library the thread waits for a moment, and one of
 * ours sends the rest, from a copy. A new slurmctld, for another configuration, sends no rest of an old one's. */
#include "message_guard.h"
#include "slurm_functions.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MILLISECONDS 20 /* Of one answer's thread: most readers are faster. */
#define LOOK_MILLISECONDS 1000
/* Without a byte read. */
#ifndef SLOW_MILLISECONDS
#define SLOW_MILLISECONDS 10000
#endif
/* Of all rests together. A longer one holds its thread. */
#ifndef SLOW_BYTES
#define SLOW_BYTES ((size_t)128 << 20)
#endif
#ifndef SLOW_READERS
#define SLOW_READERS 256
#endif

static ssize_t (*real_sendv)(void *, const struct iovec *, int);
static int (*file_of)(void *);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct reader {
    int file;
    unsigned char *bytes;
    size_t size, sent;
    long last; /* It took its last byte then. */
} readers[SLOW_READERS];
static unsigned count;
static size_t held;
static int news = -1;

/* The answer of which this thread has sent a part. */
static __thread struct {
    int file;
    long end;
} answer = {.file = -1};

static long milliseconds_now(void) {
    struct timespec time = {0};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void end_reader(unsigned which) {
    close(readers[which].file);
    free(readers[which].bytes);
    held -= readers[which].size;
    readers[which] = readers[--count];
}

static bool is_done(struct reader *reader) {
    ssize_t sent =
        send(reader->file, reader->bytes + reader->sent, reader->size - reader->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {
        reader->sent += (size_t)sent;
        reader->last = milliseconds_now();
    }
    bool is_gone = sent < 0 && errno != EAGAIN && errno != EINTR;
    return is_gone || reader->sent == reader->size || milliseconds_now() - reader->last > SLOW_MILLISECONDS;
}

static void *send_rests(void *nothing) {
    static struct pollfd wanted[SLOW_READERS + 1];
    uint64_t number;
    for (;;) {
        pthread_mutex_lock(&lock);
        nfds_t files = count + 1;
        wanted[0] = (struct pollfd){.fd = news, .events = POLLIN};
        for (unsigned i = 0; i < count; i++)
            wanted[i + 1] = (struct pollfd){.fd = readers[i].file, .events = POLLOUT};
        pthread_mutex_unlock(&lock);
        if (poll(wanted, files, files > 1 ? LOOK_MILLISECONDS : -1) > 0 && wanted[0].revents)
            (void)!read(news, &number, sizeof(number));
        pthread_mutex_lock(&lock);
        for (unsigned i = count; i-- > 0;)
            if (is_done(&readers[i]))
                end_reader(i);
        pthread_mutex_unlock(&lock);
    }
    return nothing;
}

/* Slurm's signals are for its own threads. */
static bool has_thread(void) {
    sigset_t all, before;
    pthread_t thread;
    if (news >= 0)
        return true;
    news = eventfd(0, EFD_CLOEXEC);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool has_begun = news >= 0 && !pthread_create(&thread, NULL, send_rests, NULL) && !pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!has_begun && news >= 0) {
        close(news);
        news = -1;
    }
    return has_begun;
}

/* The reader that has read nothing for longest gives way. */
static void make_room(size_t size) {
    while (count == SLOW_READERS || (count && held + size > SLOW_BYTES)) {
        unsigned slowest = 0;
        for (unsigned i = 1; i < count; i++)
            if (readers[i].last < readers[slowest].last)
                slowest = i;
        fputs("error: left the slowest reader of an answer without its rest\n", stderr);
        end_reader(slowest);
    }
}

/* Takes what follows the first bytes over. */
static bool take(int file, const struct iovec *parts, int number, size_t size, size_t sent) {
    const uint64_t one = 1;
    struct reader reader = {.size = size - sent, .last = milliseconds_now()};
    if (reader.size > SLOW_BYTES || !(reader.bytes = malloc(reader.size)))
        return false;
    for (size_t i = 0, at = 0; i < (size_t)number; at += parts[i++].iov_len) {
        size_t skipped = at >= sent ? 0 : sent - at < parts[i].iov_len ? sent - at : parts[i].iov_len;
        if (skipped < parts[i].iov_len)
            memcpy(reader.bytes + (at + skipped - sent), (const char *)parts[i].iov_base + skipped,
                   parts[i].iov_len - skipped);
    }
    pthread_mutex_lock(&lock);
    bool is_taken = has_thread() && (reader.file = fcntl(file, F_DUPFD_CLOEXEC, 0)) >= 0;
    if (is_taken) {
        make_room(reader.size);
        held += reader.size;
        readers[count++] = reader;
        (void)!write(news, &one, sizeof(one));
    } else {
        free(reader.bytes);
    }
    pthread_mutex_unlock(&lock);
    return is_taken;
}

static bool has_patience(int file) {
    if (answer.file != file) {
        answer.file = file;
        answer.end = milliseconds_now() + PATIENCE_MILLISECONDS;
    }
    struct pollfd wanted = {.fd = file, .events = POLLOUT};
    long left = answer.end - milliseconds_now();
    return left > 0 && poll(&wanted, 1, (int)left) > 0;
}

/* slurm_send_node_msg calls it until all is sent. */
ssize_t conn_g_sendv(void *connection, const struct iovec *parts, int number) {
    ssize_t sent = real_sendv(connection, parts, number);
    size_t size = 0, done = sent > 0 ? (size_t)sent : 0;
    bool is_gone = sent < 0 && errno != EAGAIN;
    for (int i = 0; i < number; i++)
        size += parts[i].iov_len;
    int file = guard_is_controller() && done < size && !is_gone ? file_of(connection) : -1;
    if (file < 0 || !connection_was_accepted(file)) {
        answer.file = -1;
        return sent;
    }
    if (has_patience(file) || !take(file, parts, number, size, done)) {
        errno = EAGAIN;
        return sent;
    }
    answer.file = -1;
    return (ssize_t)size;
}

void slow_readers_find(void) {
    *(void **)&real_sendv = guard_find("conn_g_sendv");
    *(void **)&file_of = guard_find("conn_g_get_fd");
}
