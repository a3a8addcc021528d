/* Process 1 of a job's process namespace on a node; see job.h. Static: it starts in the pod's root, moves to the users'
 * root, and loads nothing from either.
 *
 *   job_init ROOT SCRIPT
 *
 * Its one open descriptor is JOB_LOCK_DESCRIPTOR, the job's file, locked: see become_init in job.c.
 *
 * It keeps its capabilities, since the kernel lets nobody with fewer look into it. So /proc/1 leads root in the job to
 * no outer mount. */
#include "job.h"
#include "job_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int tell_made(struct jail *jail) {
    struct flock made = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = JOB_MAKES, .l_len = 1};
    if (fcntl(JOB_LOCK_DESCRIPTOR, F_SETLK, &made))
        return jail_fail_errno(jail, "say that the job's namespaces are made");
    return 0;
}

static int hold_outer(struct jail *jail) {
    int low = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (low < 0)
        return jail_fail_errno(jail, "the outer mount namespace");
    int outer = fcntl(low, F_DUPFD_CLOEXEC, JOB_OUTER_DESCRIPTOR);
    close(low);
    return outer == JOB_OUTER_DESCRIPTOR ? 0 : jail_fail(jail, "hold the outer mount namespace: descriptor %d", outer);
}

static int make(struct jail *jail, const char *script) {
    struct job_mounts mounts;
    if (unshare(CLONE_NEWIPC))
        return jail_fail_errno(jail, "make an IPC namespace");
    if (jail_enter(jail) || job_mounts_make_outer(jail, &mounts) || hold_outer(jail))
        return -1;
    if (unshare(CLONE_NEWNS))
        return jail_fail_errno(jail, "make the tasks' mount namespace");
    if (job_mounts_hide_node(jail, script) || job_mounts_make_proc(jail) || job_mounts_verify_outer(jail, &mounts) ||
        jail_verify(jail))
        return -1;
    return 0;
}

int main(int argc, char *argv[]) {
    struct jail jail;
    sigset_t all;
    if (argc != 3)
        return EXIT_FAILURE;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    /* Orphans of the job become children of process 1; the kernel reaps them. */
    signal(SIGCHLD, SIG_IGN);
    jail_init(&jail, argv[1]);
    int failed = prctl(PR_SET_PDEATHSIG, SIGKILL) ? jail_fail_errno(&jail, "end with the extern step") : 0;
    failed = failed || make(&jail, argv[2]) || tell_made(&jail);
    if (!failed)
        for (;;)
            pause();
    /* Before this process ends and drops its lock: a step that finds no lock reads the reason. */
    return write(JOB_LOCK_DESCRIPTOR, jail.why, strlen(jail.why)) < 0 ? 2 : EXIT_FAILURE;
}
