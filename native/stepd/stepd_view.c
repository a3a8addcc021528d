/* Hides the pod's secrets from slurmstepd, which parses messages of users as root. It needs no secret for that:
 * auth/slurm asks the daemon's socket for tokens. Only slurmd, slurmctld, sackd and a step manager read slurm.key
 * (auth_slurm.c, init), and job_submit_jail.c refuses step managers. Nor may it write files that the next slurmstepd
 * loads, such as plugstack.conf.
 *
 * It makes mounts and unmounts none: an unmount costs an RCU grace period of all processors. Code in slurmstepd could
 * unmount one until the tasks run; from then on stepd_filter.h and stepd_rights.h forbid it. */
#include "stepd_view.h"
#include "contract.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The paths of slurm_node/pod/paths.py, in this order: mounted Secrets; all roots of the jail; sockets and the
 * configuration; the node's own state, with a file of each extern step; slurmd's copy of the key. */

#define COVER_FLAGS (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)

static int fail(char *why, size_t size, const char *what) {
    snprintf(why, size, "%s: %s", what, strerror(errno));
    return -1;
}

/* A missing path has nothing to hide. */
static int is_wrong(int failed) {
    return failed && errno != ENOENT;
}

static int own_namespace(char *why, size_t size) {
    if (unshare(CLONE_NEWNS))
        return fail(why, size, "make a mount namespace (is SYS_ADMIN among the pod's capabilities?)");
    /* As jail.c does: mounts that the jail's tree gets later arrive here, and ours stay here. */
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL))
        return fail(why, size, "make mounts one-way (does the pod's AppArmor profile allow mount?)");
    return 0;
}

/* Not recursive: the jail's tree is mounted below. */
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
