/* The image's build links this library to Slurm's commands (images/slurm/build_prefix.py). Slurm answers neither root
 * of the jail nor Slurm's own ids (sack_door.c): the library tells them what to do instead. Slurm would only say that a
 * socket was closed. In the pod's own root, where root is Slurm's administrator, there is no door. Of an id without an
 * account slurmstepd takes no step; Slurm would cancel such a job without a word. */
#include "contract.h"

#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const harmless[] = {"--help", "--usage", "--version", "-V", NULL};
static const char *const asking_for_jobs[] = {"srun", "sbatch", "salloc", NULL};

static bool is_in(const char *const *list, const char *word) {
    for (; *list; list++)
        if (!strcmp(*list, word))
            return true;
    return false;
}

static bool has_no_account(uid_t uid) {
    errno = 0;
    return !getpwuid(uid) && (errno == 0 || errno == ENOENT);
}

/* The loader passes main's arguments to a library's constructor. */
static const char *refused(uid_t uid) {
    return uid == 0 ? "root" : uid == SLURM_ID ? "SlurmUser" : uid == SLURMREST_ID ? "slurmrestd's user" : NULL;
}

__attribute__((constructor)) static void stand_guard(int argc, char *argv[]) {
    if (access(SLURM_DOOR_MARK, F_OK))
        return;
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    const char *name = argc < 1 ? "slurm" : slash ? slash + 1 : argv[0];
    const char *who = refused(getuid());
    bool is_nameless = !who && is_in(asking_for_jobs, name) && has_no_account(getuid());
    if (!who && !is_nameless)
        return;
    for (int i = 1; i < argc; i++)
        if (is_in(harmless, argv[i]))
            return;
    if (is_nameless)
        fprintf(stderr, "%s: uid %u has no account, so Slurm runs no job for it: add one by slurm-user add NAME\n",
                name, (unsigned)getuid());
    else
        fprintf(stderr,
                "%s: %s of the jail is nobody to Slurm: run %s as yourself, without sudo, and programs of root by sudo "
                "inside of a job. Administrators are named: slurm-user add NAME --admin\n",
                name, who, name);
    _exit(EXIT_FAILURE);
}
