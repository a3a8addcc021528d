/* slurmd looks before each slurmstepd whether the view of all is still of the pod's mounts (stepd_view.h).
 *
 * To read 85 mounts takes 0.3 ms, for each slurmstepd. So slurmd keeps their list open: the kernel says in a
 * microsecond whether any mount was changed, made or taken away since the last question. Only then are they read. */
#include "stepd_view.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t looks = PTHREAD_MUTEX_INITIALIZER;
static FILE *mounts;
static uint64_t then;
static bool is_child;

/* True on the first question, and if the kernel can't tell. That question is the first fork's: slurmd closes at its
 * start what it has not opened itself. */
static bool may_differ(void) {
    if (mounts) {
        struct pollfd changed = {.fd = fileno(mounts), .events = POLLPRI};
        return poll(&changed, 1, 0) != 0;
    }
    mounts = fopen("/proc/self/mountinfo", "re");
    return true;
}

/* A child of slurmd starts its slurmstepd at once, and slurmd has looked. It shares the open list, so it would take the
 * kernel's answer from slurmd. slurmd runs with -D: it does not go on as its own child. */
static void before_fork(void) {
    pthread_mutex_lock(&looks);
    if (!is_child && may_differ() && stepd_view_note(stepd_view_digest() == then ? then : 0))
        fprintf(stderr, "slurmd: say whether slurmstepd's view is out of date: %s\n", strerror(errno));
}

static void in_parent(void) {
    pthread_mutex_unlock(&looks);
}

static void in_child(void) {
    is_child = true;
    pthread_mutex_unlock(&looks);
}

/* At once: until the slurmd before this one ends, it may say that its own mounts differ. */
void stepd_view_watch(void) {
    then = stepd_view_noted();
    if (pthread_atfork(before_fork, in_parent, in_child))
        (void)stepd_view_note(0);
}
