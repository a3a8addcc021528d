/* The system calls that slurmstepd gives up for good once it has nothing left to start. */
#ifndef PULUMI_SLURM_STEPD_FILTER_H
#define PULUMI_SLURM_STEPD_FILTER_H

#include "jail.h"

/* Forbids all threads of this process and their children to start programs, and to enter or make namespaces. They can
 * no longer mount, trace, or load code into the kernel either. Needs no capability. Returns 0, or -1 with the reason in
 * jail->why. */
int stepd_filter(struct jail *jail);

#endif
