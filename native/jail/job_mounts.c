#include "job_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The lists of containerd and Docker (their default OCI specification), later additions included. */
static const char *const masked[] = {
    "/proc/acpi",       "/proc/asound",      "/proc/interrupts",  "/proc/kcore", "/proc/keys", "/proc/latency_stats",
    "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi",  NULL,
};
static const char *const read_only[] = {
    "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", NULL,
};
#define PROC_FLAGS (MS_NOSUID | MS_NODEV | MS_NOEXEC)

static int over_memory(struct jail *jail, const char *path, mode_t mode, unsigned long flags) {
    char options[64];
    struct statvfs node;
    if (statvfs(path, &node))
        return jail_fail_errno(jail, path);
    /* As large as the node's own, whose size comes from the stack's configuration. */
    unsigned long long size = (unsigned long long)node.f_blocks * node.f_frsize;
    snprintf(options, sizeof(options), "mode=%o,size=%llu", (unsigned)mode, size);
    if (mount("job", path, "tmpfs", MS_NOSUID | MS_NODEV | flags, options))
        return jail_fail_errno(jail, path);
    return 0;
}

static int make_folder(struct jail *jail, const char *path, mode_t mode) {
    if ((mkdir(path, mode) && errno != EEXIST) || chmod(path, mode))
        return jail_fail_errno(jail, path);
    return 0;
}

static int set_read_only(struct jail *jail, const char *path, unsigned depth) {
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY};
    if (syscall(SYS_mount_setattr, AT_FDCWD, path, depth, &attributes, sizeof(attributes)))
        return jail_fail(jail, "make %s read-only (needs Linux 5.12 or newer): %s", path, strerror(errno));
    return 0;
}

int job_mounts_pick_up(struct jail *jail, const char *path) {
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY};
    unsigned how = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE, all = AT_EMPTY_PATH | AT_RECURSIVE;
    int folder = (int)syscall(SYS_open_tree, AT_FDCWD, path, how);
    if (folder >= 0 && !syscall(SYS_mount_setattr, folder, "", all, &attributes, sizeof(attributes)))
        return folder;
    jail_fail_errno(jail, path);
    if (folder >= 0)
        close(folder);
    return -1;
}

int job_mounts_place(struct jail *jail, int folder, const char *path) {
    if (syscall(SYS_move_mount, folder, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH))
        return jail_fail_errno(jail, path);
    return 0;
}

/* Makes the job's /run. Of the node's it keeps Slurm's sockets, and the node's driver if there is one. */
static int own_run(struct jail *jail) {
    int outcome = -1, node_files = -1, has_node_files = !access(JAIL_NODE_FILES, F_OK);
    int sockets = job_mounts_pick_up(jail, SLURM_SOCKETS);
    if (sockets < 0)
        return -1;
    if (has_node_files)
        node_files = job_mounts_pick_up(jail, JAIL_NODE_FILES);
    if (has_node_files == (node_files >= 0) && !over_memory(jail, "/run", 0755, 0) &&
        !make_folder(jail, "/run/lock", 01777) && !make_folder(jail, "/run/user", 0755) &&
        !make_folder(jail, SLURM_SOCKETS, 0755))
        outcome = job_mounts_place(jail, sockets, SLURM_SOCKETS);
    if (!outcome && node_files >= 0)
        outcome =
            make_folder(jail, JAIL_NODE_FILES, 0755) || job_mounts_place(jail, node_files, JAIL_NODE_FILES) ? -1 : 0;
    if (node_files >= 0)
        close(node_files);
    close(sockets);
    return outcome;
}

static const char *const own[] = {"/tmp", "/dev/shm", "/dev/pts", "/run"};
_Static_assert(sizeof(own) / sizeof(own[0]) == sizeof(((struct job_mounts *)0)->own) / sizeof(dev_t),
               "one device for each");

static int identify(struct jail *jail, const char *path, dev_t *device) {
    struct stat facts;
    if (lstat(path, &facts))
        return jail_fail_errno(jail, path);
    *device = facts.st_dev;
    return 0;
}

int job_mounts_make_outer(struct jail *jail, struct job_mounts *mounts) {
    if (over_memory(jail, "/tmp", 01777, 0) || over_memory(jail, "/dev/shm", 01777, 0))
        return -1;
    /* Without its own, root in one job could read and write another job's terminals. */
    if (mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5"))
        return jail_fail_errno(jail, "/dev/pts");
    if (own_run(jail))
        return -1;
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (identify(jail, own[i], &mounts->own[i]))
            return -1;
    return 0;
}

int job_mounts_verify_outer(struct jail *jail, const struct job_mounts *mounts) {
    dev_t device = 0;
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        if (identify(jail, own[i], &device))
            return -1;
        if (device != mounts->own[i])
            return jail_fail(jail, "%s is not the job's own any more: the shared storage failed meanwhile", own[i]);
    }
    return 0;
}

static int mask(struct jail *jail, const char *path) {
    struct stat facts;
    int failed;
    if (lstat(path, &facts))
        return errno == ENOENT ? 0 : jail_fail_errno(jail, path);
    if (S_ISDIR(facts.st_mode))
        failed = mount("masked", path, "tmpfs", MS_RDONLY | PROC_FLAGS, "size=0,mode=555");
    else
        /* Read-only, since the mask's mode is that of the node's /dev/null. */
        failed = mount("/dev/null", path, NULL, MS_BIND, NULL) ||
                 mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC, NULL);
    return failed ? jail_fail_errno(jail, path) : 0;
}

static int freeze(struct jail *jail, const char *path) {
    if (access(path, F_OK))
        return errno == ENOENT ? 0 : jail_fail_errno(jail, path);
    if (mount(path, path, NULL, MS_BIND | MS_REC, NULL) ||
        mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | PROC_FLAGS, NULL))
        return jail_fail_errno(jail, path);
    return 0;
}

int job_mounts_make_proc(struct jail *jail) {
    if (mount("proc", "/proc", "proc", PROC_FLAGS, NULL))
        return jail_fail_errno(jail, "mount the job's /proc");
    for (size_t i = 0; masked[i]; i++)
        if (mask(jail, masked[i]))
            return -1;
    for (size_t i = 0; read_only[i]; i++)
        if (freeze(jail, read_only[i]))
            return -1;
    if (!access("/dev/mqueue", F_OK) && mount("mqueue", "/dev/mqueue", "mqueue", PROC_FLAGS, NULL))
        return jail_fail_errno(jail, "/dev/mqueue");
    return 0;
}

/* Opens slurmd's spool where it is mounted, as on workers. Elsewhere *folder is -1: there the path belongs to the
 * shared root, and root of any job may point it anywhere. */
static int open_spool(struct jail *jail, int *folder) {
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
    struct statx facts;
    *folder = (int)syscall(SYS_openat2, AT_FDCWD, SLURMD_SPOOL, &how, sizeof(how));
    if (*folder < 0)
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : jail_fail_errno(jail, SLURMD_SPOOL);
    if (statx(*folder, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &facts)) {
        jail_fail_errno(jail, SLURMD_SPOOL);
        close(*folder);
        return -1;
    }
    if (!(facts.stx_attributes_mask & facts.stx_attributes & STATX_ATTR_MOUNT_ROOT)) {
        close(*folder);
        *folder = -1;
    }
    return 0;
}

/* Returns an empty file system that is mounted nowhere yet, or -1. */
static int new_memory(struct jail *jail) {
    int memory = -1, context = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);
    if (context >= 0 && !syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "size", "64k", 0) &&
        !syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "mode", "755", 0) &&
        !syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
        memory = (int)syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC,
                              MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (memory < 0)
        jail_fail_errno(jail, "a file system in place of " SLURMD_SPOOL);
    if (context >= 0)
        close(context);
    return memory;
}

static int cover(struct jail *jail, int folder, const char *kept) {
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY};
    unsigned onto = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
    int memory = new_memory(jail);
    if (memory < 0)
        return -1;
    int failed = (kept && (mkdirat(memory, kept, 0755) || fchmodat(memory, kept, 0755, 0))) ||
                 syscall(SYS_mount_setattr, memory, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) ||
                 syscall(SYS_move_mount, memory, "", folder, "", onto);
    if (failed)
        jail_fail_errno(jail, "cover " SLURMD_SPOOL);
    close(memory);
    return failed ? -1 : 0;
}

/* Hides slurmd's spool, which has scripts and credentials of other jobs. */
static int hide_spool(struct jail *jail, const char *script) {
    int folder = -1;
    if (open_spool(jail, &folder))
        return -1;
    if (folder < 0)
        return 0;
    int outcome = cover(jail, folder, script ? script + strlen(SLURMD_SPOOL "/") : NULL);
    close(folder);
    return outcome;
}

/* Puts the door (sack_door.c) in the place of the daemon's socket, beside the configuration. Jail probes also call this
 * before a node has a door. */
static int show_door(struct jail *jail) {
    struct stat facts;
    int outcome = -1, configuration = -1, door = job_mounts_pick_up(jail, SLURM_DOOR);
    if (door < 0)
        return -1;
    bool has_folder = !lstat(SLURM_FETCHED, &facts) && S_ISDIR(facts.st_mode);
    if (has_folder)
        configuration = job_mounts_pick_up(jail, SLURM_FETCHED);
    if (has_folder == (configuration >= 0))
        outcome = job_mounts_place(jail, door, SLURM_SOCKETS);
    if (!outcome && has_folder)
        outcome = job_mounts_place(jail, configuration, SLURM_FETCHED);
    if (configuration >= 0)
        close(configuration);
    close(door);
    return outcome;
}

int job_mounts_hide_node(struct jail *jail, const char *script) {
    /* Private: a later mount of the entry point in the tree would show again what is hidden here. */
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return jail_fail_errno(jail, "close the tasks' mounts to those of the node");
    /* The flag is per mount, so slurmstepd, in another namespace, keeps its writable view. */
    if (set_read_only(jail, CGROUPS, AT_RECURSIVE) || show_door(jail))
        return -1;
    return hide_spool(jail, script);
}
