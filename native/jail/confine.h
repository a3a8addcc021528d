/* The rights that a process gives up for good before it becomes the user's. */
#ifndef PULUMI_SLURM_CONFINE_H
#define PULUMI_SLURM_CONFINE_H

#include "jail.h"

/* Forbids cgroup namespaces by a system call filter, then drops capabilities. In this order: without the capabilities
 * the filter would need no_new_privs, which breaks sudo. Returns 0, or -1 with the reason in jail->why. */
int confine(struct jail *jail);

#endif
