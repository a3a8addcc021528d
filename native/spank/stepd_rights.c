#include "stepd_rights.h"
#include "kept_rights.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SIGNAL (SIGRTMIN + 5) /* No library of Slurm's takes it, and Slurm blocks none of these. */
#define SECONDS 5
#define ROUND_NANOSECONDS 50000000L /* A thread that waits takes a signal within microseconds. */
#define NANOSECONDS 1000000000L

static sem_t answered; /* once for each signal that was taken */

static void on_signal(int signal) {
    int before = errno;
    (void)signal;
    (void)kept_rights_reduce(); /* is_reduced asks the kernel whether it worked. */
    sem_post(&answered);
    errno = before;
}

/* Tells whether a thread has only the kept capabilities; a thread that has ended has none. */
static int is_reduced(int thread) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = thread};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &header, sets))
        return errno == ESRCH;
    return !(sets[0].permitted & ~KEPT_RIGHTS) && !sets[1].permitted;
}

/* Signals each thread that has more; returns how many there were, or -1. A thread born meanwhile has its maker's
 * capabilities, so it counts in the next round. */
static int ask_threads(void) {
    DIR *threads = opendir("/proc/self/task");
    int left = 0;
    if (!threads)
        return -1;
    for (struct dirent *entry = readdir(threads); entry; entry = readdir(threads)) {
        int thread = (int)strtol(entry->d_name, NULL, 10);
        if (thread <= 0 || is_reduced(thread))
            continue;
        left++;
        syscall(SYS_tgkill, getpid(), thread, SIGNAL);
    }
    closedir(threads);
    return left;
}

int stepd_rights_reduce_here(struct jail *jail) {
    return kept_rights_reduce() ? jail_fail_errno(jail, "give up capabilities") : 0;
}

static struct timespec after(struct timespec moment, long nanoseconds) {
    moment.tv_nsec += nanoseconds;
    moment.tv_sec += moment.tv_nsec / NANOSECONDS;
    moment.tv_nsec %= NANOSECONDS;
    return moment;
}

/* Waits until as many signals are taken, for one round at most. A thread may block the signal, or end with it. */
static void await_answers(int signals) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const struct timespec end = after(now, ROUND_NANOSECONDS);
    while (signals > 0) {
        if (!sem_clockwait(&answered, CLOCK_MONOTONIC, &end))
            signals--;
        else if (errno != EINTR)
            return;
    }
}

int stepd_rights_reduce(struct jail *jail) {
    struct sigaction ours = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct timespec now, end;
    int left = -1;
    if (stepd_rights_reduce_here(jail))
        return -1;
    sigemptyset(&ours.sa_mask);
    sem_init(&answered, 0, 0);
    /* The handler stays: a second signal may still wait for its thread, and must not end the process. */
    if (sigaction(SIGNAL, &ours, NULL))
        return jail_fail_errno(jail, "take a signal for giving up capabilities");
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += SECONDS;
    do {
        if ((left = ask_threads()) > 0)
            await_answers(left);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (left > 0 && now.tv_sec < end.tv_sec);
    if (left < 0)
        return jail_fail_errno(jail, "/proc/self/task");
    return left ? jail_fail(jail, "%d threads of slurmstepd keep capabilities", left) : 0;
}
