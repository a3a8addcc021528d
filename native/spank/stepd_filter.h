/* What slurmstepd gives up for good once it has nothing left to start. */
#ifndef PULUMI_SLURM_STEPD_FILTER_H
#define PULUMI_SLURM_STEPD_FILTER_H

#include "jail.h"

/* Forbids all threads of this process, and all that they fork, several things: to start programs, to enter or make
 * namespaces, to mount, to trace, and to load code into the kernel. Needs no capability. Returns 0, or -1 with the
 * reason in jail->why. */
int stepd_filter(struct jail *jail);

#endif
