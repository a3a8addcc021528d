/* slurmstepd parses what users send, as root. It needs none of the pod's secrets for that: auth/slurm asks the daemon's
 * socket for tokens, and reads slurm.key only in slurmd, slurmctld, sackd, and a step manager (auth_slurm.c, init),
 * which job_submit_jail.c refuses. Nor does it write what the next slurmstepd would load, such as plugstack.conf.
 *
 * Mounts are made and never taken away: for each unmount the kernel waits until all its processors have been through an
 * RCU grace period. Code in slurmstepd could take one away until stepd_filter.h and stepd_rights.h forbid it, which
 * they do once the tasks run. */
#include "stepd_view.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As slurm_node/pod/paths.py has them: where Secrets are mounted; all roots of the jail; sockets and the configuration;
 * the node's own state, where extern steps have a file each; slurmd's copy of the key. */
#ifndef VIEW_SECRETS
#define VIEW_SECRETS "/run/secrets"
#endif
#ifndef VIEW_VOLUME
#define VIEW_VOLUME "/mnt/jail"
#endif
#ifndef VIEW_RUN
#define VIEW_RUN "/run"
#endif
#ifndef VIEW_OWN_RUN
#define VIEW_OWN_RUN "/run/slurm-node"
#endif
#ifndef VIEW_KEY
#define VIEW_KEY "/run/slurm-node/slurm.key"
#endif

#define COVER_FLAGS (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)

static int fail(char *why, size_t size, const char *what) {
    snprintf(why, size, "%s: %s", what, strerror(errno));
    return -1;
}

/* What is not there has nothing to hide. */
static int is_wrong(int failed) {
    return failed && errno != ENOENT;
}

static int own_namespace(char *why, size_t size) {
    if (unshare(CLONE_NEWNS))
        return fail(why, size, "make a mount namespace (is SYS_ADMIN among the pod's capabilities?)");
    /* As jail.c does: what is mounted again in the jail's tree arrives, and nothing of ours leaves. */
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL))
        return fail(why, size, "make mounts one-way (does the pod's AppArmor profile allow mount?)");
    return 0;
}

/* Not what is mounted below: the jail's tree is among it. */
static int keep_run(char *why, size_t size) {
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY};
    if (is_wrong(mount(VIEW_OWN_RUN, VIEW_OWN_RUN, NULL, MS_BIND, NULL)))
        return fail(why, size, VIEW_OWN_RUN);
    if (is_wrong((int)syscall(SYS_mount_setattr, AT_FDCWD, VIEW_RUN, 0, &attributes, sizeof(attributes))))
        return fail(why, size, "make " VIEW_RUN " read-only");
    return 0;
}

int stepd_view_make(char *why, size_t size) {
    static const char *const folders[] = {VIEW_SECRETS, VIEW_VOLUME};
    if (own_namespace(why, size) || keep_run(why, size))
        return -1;
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
        if (is_wrong(mount("covered", folders[i], "tmpfs", COVER_FLAGS, "size=0,mode=0")))
            return fail(why, size, folders[i]);
    return is_wrong(mount("/dev/null", VIEW_KEY, NULL, MS_BIND, NULL)) ? fail(why, size, VIEW_KEY) : 0;
}
