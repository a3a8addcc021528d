/* The part of a job's memory that slurmstepd keeps for itself. */
#ifndef PULUMI_SLURM_JOB_MEMORY_H
#define PULUMI_SLURM_JOB_MEMORY_H

#include "jail.h"

#ifndef JOB_MEMORY_OWN_GROUP
#define JOB_MEMORY_OWN_GROUP "/proc/self/cgroup"
#endif
#ifndef JOB_MEMORY_GROUPS
#define JOB_MEMORY_GROUPS "/sys/fs/cgroup"
#endif

/* Raises the job's own memory limit for slurmstepd; each of its steps may call it. On cgroup v2 slurmstepd counts in
 * its job's limit, and its tasks in one of the same size below it. The tasks' files in /tmp count when they are gone.
 * The kernel would then end slurmstepd, and srun would learn nothing. Does nothing where there is no such group.
 * Returns 0, or -1 with the reason in jail->why. */
int job_memory_spare(struct jail *jail);

#endif
