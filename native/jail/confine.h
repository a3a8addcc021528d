/* What a user's process gives up for good before it is the user's. */
#ifndef PULUMI_SLURM_CONFINE_H
#define PULUMI_SLURM_CONFINE_H

#include "jail.h"

/* Forbids cgroup namespaces by a system call filter, then drops capabilities. The second gives up the right to do the
 * first without no_new_privs, which sudo could not live with. Returns 0, or -1 with the reason in jail->why. */
int confine(struct jail *jail);

#endif
