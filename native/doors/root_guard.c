/* The image's build links this library to Slurm's commands (images/slurm/build_prefix.py). Slurm answers neither root
 * of the jail nor Slurm's own ids (sack_door.c): the library tells them what to do instead. Slurm would only say that a
 * socket was closed. In the pod's own root, where root is Slurm's administrator, there is no door. */
#include "contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const harmless[] = {"--help", "--usage", "--version", "-V", NULL};

/* The loader passes main's arguments to a library's constructor. */
static const char *refused(uid_t uid) {
    return uid == 0 ? "root" : uid == SLURM_ID ? "SlurmUser" : uid == SLURMREST_ID ? "slurmrestd's user" : NULL;
}

__attribute__((constructor)) static void stand_guard(int argc, char *argv[]) {
    const char *who = refused(getuid());
    if (!who || access(SLURM_DOOR_MARK, F_OK))
        return;
    for (int i = 1; i < argc; i++)
        for (size_t j = 0; harmless[j]; j++)
            if (!strcmp(argv[i], harmless[j]))
                return;
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    const char *name = argc < 1 ? "slurm" : slash ? slash + 1 : argv[0];
    fprintf(stderr,
            "%s: %s of the jail is nobody to Slurm: run %s as yourself, without sudo, and programs of root by sudo "
            "inside of a job. Administrators are named: slurm-user add NAME --admin\n",
            name, who, name);
    _exit(EXIT_FAILURE);
}
