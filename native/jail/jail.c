#include "jail.h"
#include "tree_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* The capabilities that root in a job or login keeps: enough for apt, dpkg, useradd, sudo and chown. It gets none that
 * reaches out of the root: mount, ptrace, devices, modules, kernel settings. It gets no low ports, which belong to the
 * login node. */
static const int kept_capabilities[] = {
    CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_FOWNER,  CAP_FSETID,     CAP_KILL,
    CAP_SETGID, CAP_SETUID,       CAP_SETFCAP, CAP_SYS_CHROOT, CAP_AUDIT_WRITE,
};

/* Folders of the pod's root to cover: keys and sockets; the whole shared volume; a /proc without the job's masks. A
 * user namespace may mount again any file system that a visible mount shows. */
static const char *const pod_folders[] = {"run", "mnt", "proc", NULL};

#define COVER_FLAGS (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)

void jail_init(struct jail *jail, const char *root) {
    memset(jail, 0, sizeof(*jail));
    jail->root = root;
    jail->state = JAIL_OUTSIDE;
}

int jail_fail(struct jail *jail, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(jail->why, sizeof(jail->why), format, arguments);
    va_end(arguments);
    return -1;
}

int jail_fail_errno(struct jail *jail, const char *what) {
    return jail_fail(jail, "%s: %s", what, strerror(errno));
}

static int require_mount(struct jail *jail, int folder, const char *path, const char *meaning) {
    struct statx facts;
    char whole[PATH_MAX];
    snprintf(whole, sizeof(whole), "%s%s%s", jail->root, path[0] ? "/" : "", path);
    if (statx(folder, path, path[0] ? AT_NO_AUTOMOUNT : AT_EMPTY_PATH, STATX_BASIC_STATS, &facts))
        return jail_fail_errno(jail, whole);
    if (!(facts.stx_attributes_mask & facts.stx_attributes & STATX_ATTR_MOUNT_ROOT))
        return jail_fail(jail, "%s is not a mount: %s", whole, meaning);
    return 0;
}

static int check_tree(struct jail *jail, int tree) {
    struct statvfs volume;
    struct stat facts;
    if (require_mount(jail, tree, "", "the shared volume is not mounted on this node"))
        return -1;
    if (fstatvfs(tree, &volume) || fstat(tree, &facts))
        return jail_fail_errno(jail, jail->root);
    if (volume.f_flag & ST_RDONLY)
        return jail_fail(jail, "%s is read-only: no job could write its files", jail->root);
    jail->device = facts.st_dev;
    jail->inode = facts.st_ino;
    /* A job's root user can write a marker file, but can't mount. So the marker counts only on a mount of its own. */
    if (require_mount(jail, tree, "run", "this node's view of the jail is not built"))
        return -1;
    if (fstatat(tree, JAIL_MARKER, &facts, AT_SYMLINK_NOFOLLOW))
        return jail_fail(jail, "%s/%s is missing: this node's view of the jail is not complete", jail->root,
                         JAIL_MARKER);
    if (!S_ISREG(facts.st_mode) || facts.st_uid != 0)
        return jail_fail(jail, "%s/%s is not root's regular file", jail->root, JAIL_MARKER);
    /* An image may have files by the names of devices. */
    if (require_mount(jail, tree, "dev", "this node's devices are not there"))
        return -1;
    if (fstatat(tree, "dev/null", &facts, 0) || !S_ISCHR(facts.st_mode))
        return jail_fail(jail, "%s/dev/null is not a device", jail->root);
    if (fstatat(tree, "proc/self", &facts, AT_SYMLINK_NOFOLLOW))
        return jail_fail(jail, "%s/proc is not mounted", jail->root);
    /* /bin/sh may be an absolute link, which holds inside the jail alone. So the link itself is looked at. */
    if (fstatat(tree, "bin/sh", &facts, AT_SYMLINK_NOFOLLOW))
        return jail_fail(jail, "%s/bin/sh is missing: the jail's root file system is not complete", jail->root);
    return mounts_check(jail, tree);
}

static int open_tree_checked(struct jail *jail) {
    int tree = open(jail->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (tree < 0)
        return jail_fail_errno(jail, jail->root);
    if (check_tree(jail, tree)) {
        close(tree);
        return -1;
    }
    return tree;
}

int jail_check(struct jail *jail) {
    int tree = open_tree_checked(jail);
    if (tree < 0)
        return -1;
    close(tree);
    return 0;
}

/* Makes the current folder, a mount, the root: moves it over "/", as switch_root does. pivot_root is no choice:
 * container runtimes' default seccomp profile refuses it, with any capabilities. The old root lies below, where no path
 * leads: ".." of the new root is the new root. Folders with keys are covered besides. The old root stays mounted, since
 * an unmount costs an RCU grace period of all processors. */
static int move_root_here(struct jail *jail) {
    int outcome = 0;
    int old_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (old_root < 0)
        return jail_fail_errno(jail, "/");
    if (mount(".", "/", NULL, MS_MOVE, NULL))
        outcome = jail_fail_errno(jail, "move the jail to the root folder");
    else if (chroot("."))
        outcome = jail_fail_errno(jail, "make the jail the root folder (is SYS_CHROOT among the pod's capabilities?)");
    else if (fchdir(old_root))
        outcome = jail_fail_errno(jail, "find the pod's root folder");
    for (size_t i = 0; !outcome && pod_folders[i]; i++)
        if (mount("covered", pod_folders[i], "tmpfs", COVER_FLAGS, "size=0,mode=0") && errno != ENOENT)
            outcome = jail_fail_errno(jail, "cover the pod's folders");
    close(old_root);
    if (chdir("/") && !outcome)
        outcome = jail_fail_errno(jail, "enter the new root folder");
    return outcome;
}

static int own_mount_namespace(struct jail *jail) {
    if (unshare(CLONE_NEWNS))
        return jail_fail_errno(jail, "make a mount namespace (is SYS_ADMIN among the pod's capabilities?)");
    /* Slave, not private: the entry point's later mounts in the tree (slurm_node/jail/tree_watch.py) arrive here.
     * Without /etc/hosts, for example, slurmstepd can't report its job's end. Mounts made here stay here. */
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL))
        return jail_fail_errno(jail, "make mounts one-way (does the pod's AppArmor profile allow mount?)");
    return 0;
}

int jail_enter(struct jail *jail) {
    int tree = open_tree_checked(jail);
    if (tree < 0)
        return -1;
    close(tree);
    if (own_mount_namespace(jail))
        return -1;
    if (chdir(jail->root))
        return jail_fail_errno(jail, jail->root);
    if (move_root_here(jail))
        return -1;
    jail->state = JAIL_ENTERED;
    return jail_verify(jail);
}

static int keep_folder(struct jail *jail, const char *path) {
    char target[PATH_MAX];
    int length = snprintf(target, sizeof(target), ".%s", path);
    if (length < 0 || (size_t)length >= sizeof(target))
        return jail_fail(jail, "%s: path too long", path);
    for (char *slash = strchr(target + 2, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(target, 0755) && errno != EEXIST)
            return jail_fail_errno(jail, target);
        *slash = '/';
    }
    if (mkdir(target, 0755) && errno != EEXIST)
        return jail_fail_errno(jail, target);
    if (mount(path, target, NULL, MS_BIND | MS_REC, NULL))
        return jail_fail_errno(jail, path);
    return 0;
}

int jail_enter_refusal(struct jail *jail, const char *const keep[]) {
    char reason[sizeof(jail->why)];
    memcpy(reason, jail->why, sizeof(reason));
    if (own_mount_namespace(jail))
        return -1;
    if (mount("refusal", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=64k,mode=755") || chdir("/tmp"))
        return jail_fail_errno(jail, "mount an empty root");
    /* slurmstepd falls back to /tmp for a missing working folder; without /tmp it ends and says nothing.
     */
    if (mkdir("./tmp", 0755))
        return jail_fail_errno(jail, "make a folder in the empty root");
    for (size_t i = 0; keep[i]; i++)
        if (keep_folder(jail, keep[i]))
            return -1;
    if (mount(NULL, "/tmp", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
        return jail_fail_errno(jail, "make the empty root read-only");
    if (move_root_here(jail))
        return -1;
    jail->state = JAIL_REFUSED;
    memcpy(jail->why, reason, sizeof(reason));
    return 0;
}

/* Asks no file server, which may hang: the root's identity was fixed when it was entered. */
static int identify_root(struct jail *jail, dev_t *device, ino_t *inode) {
    struct statx root;
    if (statx(AT_FDCWD, "/", AT_STATX_DONT_SYNC, STATX_INO, &root))
        return jail_fail_errno(jail, "/");
    *device = makedev(root.stx_dev_major, root.stx_dev_minor);
    *inode = root.stx_ino;
    return 0;
}

int jail_adopt_root(struct jail *jail) {
    if (identify_root(jail, &jail->device, &jail->inode))
        return -1;
    jail->state = JAIL_ENTERED;
    return 0;
}

int jail_verify(struct jail *jail) {
    dev_t device = 0;
    ino_t inode = 0;
    if (jail->state == JAIL_REFUSED)
        return -1;
    if (jail->state != JAIL_ENTERED)
        return jail_fail(jail, "the jail was never entered");
    if (identify_root(jail, &device, &inode))
        return -1;
    if (device != jail->device || inode != jail->inode)
        return jail_fail(jail, "the root folder is not the jail's");
    return 0;
}

static uint64_t kept_mask(void) {
    uint64_t mask = 0;
    for (size_t i = 0; i < sizeof(kept_capabilities) / sizeof(kept_capabilities[0]); i++)
        mask |= UINT64_C(1) << kept_capabilities[i];
    return mask;
}

int jail_drop_capabilities(struct jail *jail) {
    const uint64_t kept = kept_mask();
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++) {
        if (capability < 64 && (kept >> capability) & 1)
            continue;
        if (prctl(PR_CAPBSET_READ, capability, 0, 0, 0) == 1 && prctl(PR_CAPBSET_DROP, capability, 0, 0, 0))
            return jail_fail(jail,
                             "drop capability %d from the bounding set (is SETPCAP among the pod's capabilities?): %s",
                             capability, strerror(errno));
    }
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &header, sets))
        return jail_fail_errno(jail, "read the capability sets");
    for (int word = 0; word < _LINUX_CAPABILITY_U32S_3; word++) {
        uint32_t mask = (uint32_t)(kept >> (32 * word));
        sets[word].permitted &= mask;
        sets[word].effective &= mask;
        /* An inheritable capability survives exec even when the bounding set lacks it. */
        sets[word].inheritable = 0;
    }
    if (syscall(SYS_capset, &header, sets))
        return jail_fail_errno(jail, "reduce the capability sets");
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
        return jail_fail_errno(jail, "clear the ambient capabilities");
    return 0;
}
