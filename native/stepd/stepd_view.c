/* Hides the pod's secrets from slurmstepd, which parses messages of users as root. It needs no secret for that:
 * auth/slurm asks the daemon's socket for tokens. Only slurmd, slurmctld, sackd and a step manager read slurm.key
 * (auth_slurm.c, init), and job_submit_jail.c refuses step managers. Nor may it write files that the next slurmstepd
 * loads, such as plugstack.conf.
 *
 * slurmd_start makes the view once for all, since a copy of the pod's mounts costs each slurmstepd half a millisecond.
 * It makes mounts and unmounts none: an unmount costs an RCU grace period of all processors. Code in slurmstepd could
 * unmount one until the tasks run; from then on stepd_filter.h and stepd_rights.h forbid it. So each looks for all that
 * covers, and makes a view of its own if some is gone.
 *
 * A mount that is changed in the pod later, to read-only for instance, stays as it was in a view. So slurmd compares
 * the pod's mounts with those of that time before it starts a slurmstepd (view_watch.c). Each slurmstepd makes a view
 * of its own while they differ. */
#include "stepd_view.h"
#include "contract.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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

static const char *const folders[] = {VIEW_SECRETS, VIEW_VOLUME};
#define FOLDERS (sizeof(folders) / sizeof(folders[0]))

static int make_own(char *why, size_t size) {
    if (own_namespace(why, size) || keep_run(why, size))
        return -1;
    for (size_t i = 0; i < FOLDERS; i++)
        if (is_wrong(mount("covered", folders[i], "tmpfs", COVER_FLAGS, "size=0,mode=0")))
            return fail(why, size, folders[i]);
    return is_wrong(mount("/dev/null", VIEW_KEY, NULL, MS_BIND, NULL)) ? fail(why, size, VIEW_KEY) : 0;
}

/* True if all that make_own covers is covered here. */
static bool is_narrow(void) {
    struct stat seen;
    struct statvfs run;
    for (size_t i = 0; i < FOLDERS; i++)
        if (stat(folders[i], &seen) ? errno != ENOENT : (seen.st_mode & ALLPERMS) != 0)
            return false;
    if (statvfs(VIEW_RUN, &run) ? errno != ENOENT : !(run.f_flag & ST_RDONLY))
        return false;
    return stat(VIEW_KEY, &seen) ? errno == ENOENT : S_ISCHR(seen.st_mode);
}

/* FNV-1a. */
uint64_t stepd_view_digest(void) {
    uint64_t digest = 0xcbf29ce484222325;
    unsigned char text[16384];
    size_t got;
    FILE *file = fopen("/proc/self/mountinfo", "re");
    if (!file)
        return 0;
    do {
        got = fread(text, 1, sizeof(text), file);
        for (size_t i = 0; i < got; i++)
            digest = (digest ^ text[i]) * 0x100000001b3;
    } while (got == sizeof(text));
    if (ferror(file))
        digest = 0;
    fclose(file);
    return digest;
}

uint64_t stepd_view_noted(void) {
    uint64_t noted = 0;
    int file = open(VIEW_MOUNTS, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file >= 0 && read(file, &noted, sizeof(noted)) != sizeof(noted))
        noted = 0;
    if (file >= 0)
        close(file);
    return noted;
}

int stepd_view_note(uint64_t mounts) {
    int file = mounts ? open(VIEW_MOUNTS, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    if (file < 0)
        return unlink(VIEW_MOUNTS) && errno != ENOENT ? -1 : -(mounts != 0);
    int failed = write(file, &mounts, sizeof(mounts)) != sizeof(mounts);
    close(file);
    return failed ? -1 : 0;
}

/* Without a prepared view the file is empty, or not there. While the mounts differ, none are noted. */
static bool enter_prepared(void) {
    int file = stepd_view_noted() ? open(VIEW_PREPARED, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    bool has_entered = file >= 0 && !setns(file, CLONE_NEWNS) && is_narrow();
    if (file >= 0)
        close(file);
    return has_entered;
}

int stepd_view_make(char *why, size_t size) {
    return enter_prepared() ? 0 : make_own(why, size);
}

/* The view lives as long as the mount of its namespace, in the pod's own. Returns 0, -1, or the errno of that mount. */
static int keep_view_of(pid_t child, char *why, size_t size) {
    char view[64];
    int status, file = open(VIEW_PREPARED, O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return fail(why, size, VIEW_PREPARED);
    close(file);
    snprintf(view, sizeof(view), "/proc/%d/ns/mnt", (int)child);
    if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status)) {
        snprintf(why, size, "the program that makes it ended");
        return -1;
    }
    if (mount(view, VIEW_PREPARED, NULL, MS_BIND, NULL)) {
        int number = errno;
        fail(why, size, VIEW_PREPARED);
        return number;
    }
    return stepd_view_note(stepd_view_digest()) ? fail(why, size, VIEW_MOUNTS) : 0;
}

/* Returns what keep_view_of does. */
static int prepare_on(int cpu, char *why, size_t size) {
    pid_t child = fork();
    if (child == 0) {
        cpu_set_t only;
        CPU_ZERO(&only);
        CPU_SET(cpu, &only);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (sched_setaffinity(0, sizeof(only), &only))
            fail(why, size, "run on one CPU");
        else if (!make_own(why, size))
            raise(SIGSTOP);
        fprintf(stderr, "slurmd: %s\n", why);
        _exit(1);
    }
    if (child < 0)
        return fail(why, size, "start a program");
    int failed = keep_view_of(child, why, size);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return failed;
}

/* Linux refuses to mount a namespace in one with a greater number (mnt_ns_loop: EINVAL). A newer one has a greater
 * number if both were made on one CPU: since 6.18 each CPU has numbers of its own. So each CPU is tried. */
int stepd_view_prepare(char *why, size_t size) {
    cpu_set_t cpus;
    int failed = EINVAL;
    (void)stepd_view_note(0);
    while (!umount2(VIEW_PREPARED, MNT_DETACH | UMOUNT_NOFOLLOW))
        continue;
    if (access(VIEW_KEY, F_OK))
        return fail(why, size, VIEW_KEY);
    if (sched_getaffinity(0, sizeof(cpus), &cpus))
        return fail(why, size, "look for its CPUs");
    for (int cpu = 0; cpu < CPU_SETSIZE && failed == EINVAL; cpu++)
        if (CPU_ISSET(cpu, &cpus))
            failed = prepare_on(cpu, why, size);
    return failed ? -1 : 0;
}
