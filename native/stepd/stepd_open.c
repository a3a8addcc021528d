/* Opens a job's files for slurmstepd as the job would: -i, -o, -e, files of single tasks, --chdir.
 *
 * Slurm opens them in slurmstepd's own view. It has the pod's /proc, writable control groups, slurmd's spool and the
 * devices of all jobs. A job reaches none of these. So a user's path leads through no magic link, such as
 * /proc/self/task/N/root, and into none of those places. A path is judged before it is opened: otherwise the open would
 * make or empty a file, or act on a device. The opened descriptor is judged again: the path may lead elsewhere by then.
 *
 * slurmstepd itself opens those files, none of its libraries does. Its other files are checked alike, but for three
 * names. A library makes only the missing folders of an output file. It does so with the user's effective id, which all
 * threads have then. tests/image/doors/test_stepd_imports.py pins which calls slurmstepd has. */
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

#define MOST_LINKS 40 /* As path_resolution(7) has it. */

static uintptr_t program_begin, program_end;

/* A name in an opened folder: where a path leads. */
struct place {
    int folder;
    const char *name;
    char path[PATH_MAX];
};

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

/* null, zero, full, random and urandom; tty and ptmx; terminals. The numbers are those of Linux' devices.txt. */
static int is_for_everybody(unsigned major, unsigned minor) {
    switch (major) {
    case 1:
        return minor == 3 || minor == 5 || (minor >= 7 && minor <= 9);
    case 5:
        return minor == 0 || minor == 2;
    default:
        return major >= 136 && major <= 143;
    }
}

/* Linux asks a device group at an open alone, and slurmstepd's group is not its tasks': they would inherit what theirs
 * refuses. */
static int is_a_device(const struct statx *facts) {
    return S_ISBLK(facts->stx_mode) ||
           (S_ISCHR(facts->stx_mode) && !is_for_everybody(facts->stx_rdev_major, facts->stx_rdev_minor));
}

static int is_the_nodes(int file) {
    struct statfs system;
    struct statx facts;
    if (fstatfs(file, &system) ||
        statx(file, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_MNT_ID, &facts))
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
        return is_a_device(&facts) || is_in_spool(&facts);
    }
}

/* Closes a file, and leaves errno as it is. Returns the outcome. */
static int close_after(int outcome, int file) {
    int why = errno;
    close(file);
    errno = why;
    return outcome;
}

/* Returns an opened file that is not the node's; closes others, with EACCES. A failed open keeps its error. */
static int judge(int file) {
    if (file < 0 || !is_the_nodes(file))
        return file;
    errno = EACCES;
    return close_after(-1, file);
}

static int open_folder(int from, const char *path) {
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};
    struct open_how look = {.flags = O_PATH | O_CLOEXEC};
    int folder = (int)syscall(SYS_openat2, from, path, &how, sizeof(how));
    if (folder < 0 && errno == ELOOP) {
        /* A loop of links keeps its error; a magic link is refused. */
        int there = (int)syscall(SYS_openat2, from, path, &look, sizeof(look));
        if (there >= 0)
            close(there);
        errno = there >= 0 ? EACCES : errno;
    }
    return judge(folder);
}

/* Splits a path into its folder, which it copies to `folder`, and the name in it. The path may end in slashes. */
static const char *split(const char *path, char folder[PATH_MAX]) {
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/')
        end--;
    while (end > 0 && path[end - 1] != '/')
        end--;
    if (end >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    memcpy(folder, end ? path : ".", end ? end : 1);
    folder[end ? end : 1] = '\0';
    return path + end;
}

/* Opens the folder of the path, which begins at the folder before. */
static int enter_folder(struct place *place) {
    char folder[PATH_MAX];
    int before = place->folder;
    place->name = split(place->path, folder);
    place->folder = place->name ? open_folder(before, folder) : -1;
    int failed = place->folder < 0 ? -1 : 0;
    return before == AT_FDCWD ? failed : close_after(failed, before);
}

/* As with fs.protected_symlinks: what a stranger puts into a folder for everybody leads nowhere. */
static int may_follow(const struct place *place) {
    struct stat folder, last;
    if (fstat(place->folder, &folder) || fstatat(place->folder, place->name, &last, AT_SYMLINK_NOFOLLOW))
        return 0;
    return last.st_uid == geteuid() || last.st_uid == folder.st_uid ||
           (folder.st_mode & (S_ISVTX | S_IWOTH)) != (S_ISVTX | S_IWOTH);
}

/* Returns true if open(2) with these flags follows a link at a path's end. */
static int follows(int flags) {
    return !(flags & O_NOFOLLOW) && (flags & (O_CREAT | O_EXCL)) != (O_CREAT | O_EXCL);
}

/* Follows a path to a name that is no link, in a folder that is not the node's. The folder stays open. */
static int find_place(const char *path, int flags, struct place *place) {
    char target[PATH_MAX];
    place->folder = AT_FDCWD;
    if (strlen(path) >= sizeof(place->path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(place->path, path, strlen(path) + 1);
    for (int links = 0; links <= MOST_LINKS; links++) {
        if (enter_folder(place))
            return -1;
        ssize_t length = follows(flags) ? readlinkat(place->folder, place->name, target, sizeof(target) - 1) : -1;
        if (length < 0)
            return 0;
        if (!may_follow(place)) {
            errno = EACCES;
            return close_after(-1, place->folder);
        }
        memcpy(place->path, target, (size_t)length);
        place->path[length] = '\0';
    }
    errno = ELOOP;
    return close_after(-1, place->folder);
}

/* As O_TRUNC does, which ignores other kinds of files. */
static int empty(int file) {
    struct stat facts;
    return fstat(file, &facts) || (S_ISREG(facts.st_mode) && ftruncate(file, 0)) ? -1 : 0;
}

/* Opens a name that is no link. A slash after a link's name would have the kernel follow it, and that is refused too.
 */
static int open_name(const struct place *place, int flags, mode_t mode) {
    struct open_how how = {.flags = (unsigned)flags, .mode = mode, .resolve = RESOLVE_NO_SYMLINKS};
    int file = (int)syscall(SYS_openat2, place->folder, place->name, &how, sizeof(how));
    if (file < 0 && errno == ELOOP)
        errno = EACCES;
    return judge(file);
}

static int open_in(const struct place *place, int flags, mode_t mode) {
    int look = open_name(place, O_PATH | O_CLOEXEC, 0);
    if (look < 0 && (errno != ENOENT || !(flags & O_CREAT)))
        return -1;
    if (look >= 0)
        close(look);
    int file = open_name(place, flags & ~O_TRUNC, mode);
    return file >= 0 && flags & O_TRUNC && empty(file) ? close_after(-1, file) : file;
}

static int open_for_user(const char *path, int flags, mode_t mode) {
    struct place place;
    return find_place(path, flags, &place) ? -1 : close_after(open_in(&place, flags, mode), place.folder);
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
    int folder = open_folder(AT_FDCWD, path);
    return folder < 0 ? -1 : close_after(fchdir(folder), folder);
}

int mkdir(const char *path, mode_t mode) {
    char folder[PATH_MAX];
    if (geteuid() == 0)
        return mkdirat(AT_FDCWD, path, mode);
    const char *name = split(path, folder);
    if (!name)
        return -1;
    if (!*name) {
        errno = *path ? EEXIST : ENOENT;
        return -1;
    }
    int parent = open_folder(AT_FDCWD, folder);
    return parent < 0 ? -1 : close_after(mkdirat(parent, name, mode), parent);
}
