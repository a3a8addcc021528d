#include "stepd_rights.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SIGNAL (SIGRTMIN + 5)       /* No library of Slurm's takes it, and Slurm blocks none of these. */
#define SHORTEST_NANOSECONDS 50000L /* A thread that waits takes a signal within microseconds. */
#define LONGEST_NANOSECONDS 50000000L
#define ROUNDS 110 /* Five seconds. */

/* Signal the tasks; become their user and be root again; remove the script in a folder that is the user's. No job has
 * the last one. So no job's process can look into slurmstepd: for that it would need all of these. */
static const unsigned kept =
    1U << CAP_KILL | 1U << CAP_SETUID | 1U << CAP_SETGID | 1U << CAP_DAC_OVERRIDE | 1U << CAP_SETPCAP;

static int reduce(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &header, sets))
        return -1;
    for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
        unsigned mine = i == 0 ? kept : 0;
        sets[i].permitted &= mine;
        sets[i].effective &= mine;
        sets[i].inheritable &= mine;
    }
    return (int)syscall(SYS_capset, &header, sets);
}

static void on_signal(int signal) {
    int before = errno;
    (void)signal;
    (void)reduce(); /* is_reduced asks the kernel whether it worked. */
    errno = before;
}

/* Tells whether a thread has only the kept capabilities; a thread that has ended has none. */
static int is_reduced(int thread) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = thread};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &header, sets))
        return errno == ESRCH;
    return !(sets[0].permitted & ~kept) && !sets[1].permitted;
}

/* Signals each thread that has more; returns how many there were, or -1. A thread born meanwhile has its maker's
 * capabilities, so it counts in the next round. */
static int ask_threads(void) {
    DIR *threads = opendir("/proc/self/task");
    int left = 0;
    if (!threads)
        return -1;
    for (struct dirent *each = readdir(threads); each; each = readdir(threads)) {
        int thread = (int)strtol(each->d_name, NULL, 10);
        if (thread <= 0 || is_reduced(thread))
            continue;
        left++;
        syscall(SYS_tgkill, getpid(), thread, SIGNAL);
    }
    closedir(threads);
    return left;
}

int stepd_rights_reduce_here(struct jail *jail) {
    return reduce() ? jail_fail_errno(jail, "give up capabilities") : 0;
}

int stepd_rights_reduce(struct jail *jail) {
    struct sigaction ours = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct timespec pause = {.tv_nsec = SHORTEST_NANOSECONDS};
    int left = -1;
    if (stepd_rights_reduce_here(jail))
        return -1;
    sigemptyset(&ours.sa_mask);
    /* The handler stays: a second signal may still wait for its thread, and must not end the process. */
    if (sigaction(SIGNAL, &ours, NULL))
        return jail_fail_errno(jail, "take a signal for giving up capabilities");
    for (int round = 0; round < ROUNDS && (left = ask_threads()) > 0; round++) {
        nanosleep(&pause, NULL);
        pause.tv_nsec = pause.tv_nsec * 2 < LONGEST_NANOSECONDS ? pause.tv_nsec * 2 : LONGEST_NANOSECONDS;
    }
    if (left < 0)
        return jail_fail_errno(jail, "/proc/self/task");
    return left ? jail_fail(jail, "%d threads of slurmstepd keep capabilities", left) : 0;
}
