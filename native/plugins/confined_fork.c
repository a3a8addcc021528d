/* Linked into third-party plugins, which are compiled to call these for fork and setns (images/slurm/build_plugins.py).
 *
 * slurmstepd stands outside of the job. Its own children see the whole node's processes and cgroups, and root among
 * them has the pod's capabilities. A plugin that starts the users' programs there, as Pyxis starts enroot, opens a way
 * out.
 */
#include "confined_fork.h"
#include "spank_jail.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>

/* Found at run time, not linked: Slurm would find our callbacks in a linked library, too, and call them twice. */
static void *of_jail(const char *name) {
    void *jail = dlopen(SPANK_JAIL, RTLD_NOW | RTLD_NOLOAD);
    return jail ? dlsym(jail, name) : NULL;
}

pid_t confined_fork(void) {
    pid_t (*start)(void) = NULL;
    *(void **)&start = of_jail(SPANK_JAIL_FORK);
    if (start)
        return start();
    errno = ENOSYS;
    return -1;
}

int confined_setns(int file, int kind) {
    return kind == CLONE_NEWCGROUP ? 0 : setns(file, kind);
}
