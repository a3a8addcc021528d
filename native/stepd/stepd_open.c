/* Opens a job's files for slurmstepd as the job would: -i, -o, -e, files of single tasks, --chdir.
 *
 * Slurm opens them in slurmstepd's own view, with the pod's /proc, writable control groups and slurmd's spool. A job
 * reaches none of these. So a user's path leads through no magic link, such as /proc/self/task/N/root, and into none of
 * those places. The check is done on the opened descriptor, which slurmstepd then uses.
 *
 * slurmstepd itself opens those files, none of its libraries does. Its other files are checked alike, but for three
 * names. A library makes only the missing folders of an output file. It does so with the user's effective id, which all
 * threads have then. tests/image/test_stepd_imports.py pins which calls slurmstepd has. */
#include "stepd_open.h"
#include "contract.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

static uintptr_t program_begin, program_end;

/* The program itself comes first. */
static int find_program(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size;
    (void)unused;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && segment->p_flags & PF_X) {
            program_begin = info->dlpi_addr + segment->p_vaddr;
            program_end = program_begin + segment->p_memsz;
        }
    }
    return 1;
}

void stepd_open_init(void) {
    dl_iterate_phdr(find_program, NULL);
}

static int is_the_programs(const void *caller) {
    uintptr_t address = (uintptr_t)caller;
    return address >= program_begin && address < program_end;
}

/* `before`, digits, `after`. */
static int is_numbered(const char *path, const char *before, const char *after) {
    size_t length = strlen(before);
    if (strncmp(path, before, length) != 0)
        return 0;
    size_t digits = strspn(path + length, "0123456789");
    return digits && !strcmp(path + length + digits, after);
}

/* slurmstepd's own files: the script that it writes, and the kernel's files about itself and its tasks. No option of a
 * job opens these names with these flags. */
static int is_its_own(const char *path, int flags) {
    if (geteuid() != 0)
        return 0;
    if (flags & O_CREAT)
        return flags & O_EXCL && is_numbered(path, SLURMD_SPOOL "/job", "/slurm_script");
    return !strcmp(path, "/proc/self/oom_score_adj") || is_numbered(path, "/proc/", "/stat");
}

/* Without a mount of its own, as on a login node, the spool's path lies on the jail's mount. */
static int is_in_spool(const struct statx *facts) {
    struct statx spool;
    return !statx(AT_FDCWD, SLURMD_SPOOL, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, STATX_MNT_ID, &spool) &&
           spool.stx_attributes & STATX_ATTR_MOUNT_ROOT && spool.stx_mnt_id == facts->stx_mnt_id;
}

static int is_the_nodes(int file) {
    struct statfs system;
    struct statx facts;
    if (fstatfs(file, &system) || statx(file, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &facts))
        return 1;
    switch (system.f_type) {
    case PROC_SUPER_MAGIC:
    case CGROUP_SUPER_MAGIC:
    case CGROUP2_SUPER_MAGIC:
    case SYSFS_MAGIC:
    case DEBUGFS_MAGIC:
    case TRACEFS_MAGIC:
    case SECURITYFS_MAGIC:
    case BPF_FS_MAGIC:
        return 1;
    default:
        return is_in_spool(&facts);
    }
}

static int open_for_user(const char *path, int flags, mode_t mode) {
    struct open_how how = {.flags = (unsigned)flags, .mode = mode, .resolve = RESOLVE_NO_MAGICLINKS};
    struct open_how look = {.flags = O_PATH | O_CLOEXEC};
    int file = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
    if (file < 0 && errno == ELOOP) {
        /* A loop of links keeps its error; a magic link is refused. */
        int there = (int)syscall(SYS_openat2, AT_FDCWD, path, &look, sizeof(look));
        if (there >= 0)
            close(there);
        errno = there >= 0 ? EACCES : errno;
    }
    if (file >= 0 && is_the_nodes(file)) {
        close(file);
        errno = EACCES;
        return -1;
    }
    return file;
}

/* Comes before the C library's open for slurmstepd and the libraries that it loads. */
int open(const char *file, int oflag, ...) {
    mode_t mode = 0;
    if (oflag & O_CREAT || (oflag & O_TMPFILE) == O_TMPFILE) {
        va_list arguments;
        va_start(arguments, oflag);
        mode = va_arg(arguments, mode_t) & 07777;
        va_end(arguments);
    }
    if (!is_the_programs(__builtin_return_address(0)) || is_its_own(file, oflag))
        return openat(AT_FDCWD, file, oflag, mode);
    return open_for_user(file, oflag, mode);
}

int chdir(const char *path) {
    if (!is_the_programs(__builtin_return_address(0)))
        return (int)syscall(SYS_chdir, path);
    int folder = open_for_user(path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (folder < 0)
        return -1;
    int failed = fchdir(folder), why = errno;
    close(folder);
    errno = why;
    return failed;
}

/* Splits a path into its folder, which it copies to `folder`, and the name in it. The path may end in slashes. */
static const char *split(const char *path, char folder[PATH_MAX]) {
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/')
        end--;
    while (end > 0 && path[end - 1] != '/')
        end--;
    if (end >= PATH_MAX)
        return NULL;
    memcpy(folder, end ? path : ".", end ? end : 1);
    folder[end ? end : 1] = '\0';
    return path + end;
}

int mkdir(const char *path, mode_t mode) {
    char folder[PATH_MAX];
    if (geteuid() == 0)
        return mkdirat(AT_FDCWD, path, mode);
    const char *name = split(path, folder);
    if (!name || !*name) {
        errno = !name ? ENAMETOOLONG : *path ? EEXIST : ENOENT;
        return -1;
    }
    int parent = open_for_user(folder, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (parent < 0)
        return -1;
    int failed = mkdirat(parent, name, mode), why = errno;
    close(parent);
    errno = why;
    return failed;
}
