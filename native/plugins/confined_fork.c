/* Linked into third-party plugins, which are compiled to call these for fork, setns and execvpe
 * (images/slurm/build_plugins.py).
 *
 * slurmstepd stands outside of the job. Its own children see the whole node's processes and cgroups, and root among
 * them has the pod's capabilities. A plugin that starts the users' programs there, as Pyxis starts enroot, opens a way
 * out.
 */
#include "confined_fork.h"
#include "spank_jail.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define USUAL_PATH "/usr/local/bin:/usr/bin:/bin"

/* Found at run time, not linked: Slurm would find our callbacks in a linked library, too, and call them twice. */
static void *of_jail(const char *name) {
    void *jail = dlopen(SPANK_JAIL, RTLD_NOW | RTLD_NOLOAD);
    return jail ? dlsym(jail, name) : NULL;
}

__attribute__((constructor)) static void say_so(void) {
    void (*expect)(void) = NULL;
    *(void **)&expect = of_jail(SPANK_JAIL_EXPECT_FORKS);
    if (expect)
        expect();
}

pid_t confined_fork(void) {
    pid_t (*start)(void) = NULL;
    *(void **)&start = of_jail(SPANK_JAIL_FORK);
    if (start)
        return start();
    errno = ENOSYS;
    return -1;
}

/* The C library's own calls an execve of its own, which slurmstepd's guard can't replace. */
int confined_execvpe(const char *file, char *const arguments[], char *const environment[]) {
    char path[PATH_MAX];
    const char *folders = getenv("PATH");
    if (strchr(file, '/'))
        return execve(file, arguments, environment);
    for (const char *next = folders ? folders : USUAL_PATH; next; next = strchr(next, ':')) {
        next += *next == ':';
        int length = snprintf(path, sizeof(path), "%.*s/%s", (int)strcspn(next, ":"), next, file);
        if (*next == '/' && length < (int)sizeof(path) && !access(path, X_OK))
            return execve(path, arguments, environment);
    }
    errno = ENOENT;
    return -1;
}

int confined_setns(int file, int kind) {
    return kind == CLONE_NEWCGROUP ? 0 : setns(file, kind);
}
