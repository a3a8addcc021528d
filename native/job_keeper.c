/* Process 1 of a job's process namespace on a node; see job.h. Static: when it starts it is in the pod's root, and then
 * in the users', and it takes nothing from either.
 *
 *   job_keeper ROOT LOCK SCRIPT
 *
 * It keeps its capabilities: the kernel lets nobody with fewer look at it, so root in the job finds no way through
 * /proc/1 to the outer mounts. */
#include "job.h"
#include "view.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Kept open for as long as this process lives; nothing else is open from JOB_OUTER_DESCRIPTOR on. */
struct kept {
    int lock, outer;
};

/* Opened while the pod's root is in reach, locked when all is done. Closing any descriptor of the file would give the
 * lock up, so it stands clear of the number that the outer namespace takes. */
static int open_lock(struct jail *jail, struct kept *kept, const char *path) {
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    kept->lock = file < 0 ? -1 : fcntl(file, F_DUPFD_CLOEXEC, JOB_OUTER_DESCRIPTOR + 1);
    if (file >= 0)
        close(file);
    return kept->lock < 0 ? jail_fail_errno(jail, path) : 0;
}

static int lock(struct jail *jail, const struct kept *kept) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(kept->lock, F_SETLK, &whole) ? jail_fail_errno(jail, "say that the job's namespaces are ready") : 0;
}

static int hold_outer(struct jail *jail, struct kept *kept) {
    kept->outer = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (kept->outer >= 0 && kept->outer < JOB_OUTER_DESCRIPTOR) {
        int low = kept->outer;
        kept->outer = fcntl(low, F_DUPFD_CLOEXEC, JOB_OUTER_DESCRIPTOR);
        close(low);
    }
    if (kept->outer != JOB_OUTER_DESCRIPTOR)
        return jail_fail(jail, "hold the outer mount namespace: descriptor %d: %s", kept->outer, strerror(errno));
    return 0;
}

static int make(struct jail *jail, struct kept *kept, const char *script) {
    if (unshare(CLONE_NEWIPC))
        return jail_fail_errno(jail, "make an IPC namespace");
    if (jail_enter(jail) || view_make_outer(jail) || hold_outer(jail, kept))
        return -1;
    if (unshare(CLONE_NEWNS))
        return jail_fail_errno(jail, "make the tasks' mount namespace");
    if (view_hide_node(jail, script) || view_make_proc(jail) || jail_verify(jail))
        return -1;
    return 0;
}

int main(int argc, char *argv[]) {
    struct jail jail;
    struct kept kept;
    sigset_t all;
    if (argc != 4)
        return EXIT_FAILURE;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    /* Orphans of the job come to process 1, and none is waited for. */
    signal(SIGCHLD, SIG_IGN);
    jail_init(&jail, argv[1]);
    int failed = prctl(PR_SET_PDEATHSIG, SIGKILL) ? jail_fail_errno(&jail, "end with the extern step") : 0;
    failed = failed || open_lock(&jail, &kept, argv[2]) || make(&jail, &kept, argv[3]) || lock(&jail, &kept);
    const char *said = failed ? jail.why : JOB_KEPT;
    if (write(STDOUT_FILENO, said, strlen(said)) < 0 || failed)
        return EXIT_FAILURE;
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    for (;;)
        pause();
}
