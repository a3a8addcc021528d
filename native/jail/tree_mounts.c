#include "tree_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int check_mount(struct jail *jail, int tree, const char *path) {
    struct open_how how = {
        .flags = O_PATH | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    struct statx facts;
    int folder = (int)syscall(SYS_openat2, tree, path, &how, sizeof(how));
    if (folder < 0)
        return jail_fail(jail, "the mount %s is gone: %s", path, strerror(errno));
    int failed = statx(folder, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &facts);
    int reason = errno;
    close(folder);
    if (failed)
        return jail_fail(jail, "the mount %s: %s", path, strerror(reason));
    if (!(facts.stx_attributes_mask & facts.stx_attributes & STATX_ATTR_MOUNT_ROOT))
        return jail_fail(jail, "the mount %s is gone: what it stood on was removed or renamed in the shared root",
                         path);
    return 0;
}

int mounts_check(struct jail *jail, int tree) {
    char path[PATH_MAX];
    struct stat facts;
    /* Root in a login may have put a pipe there meanwhile: do not wait for its other end. */
    int outcome = 0, marker = openat(tree, JAIL_MARKER, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int is_file = marker >= 0 && !fstat(marker, &facts) && S_ISREG(facts.st_mode);
    FILE *lines = is_file ? fdopen(marker, "r") : NULL;
    if (!lines) {
        if (marker >= 0 && !is_file)
            jail_fail(jail, "%s is not a regular file", JAIL_MARKER);
        else
            jail_fail_errno(jail, JAIL_MARKER);
        if (marker >= 0)
            close(marker);
        return -1;
    }
    while (!outcome && fgets(path, sizeof(path), lines)) {
        path[strcspn(path, "\n")] = '\0';
        outcome = check_mount(jail, tree, path);
    }
    fclose(lines);
    return outcome;
}
