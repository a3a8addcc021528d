/* What slurmstepd keeps of a job's memory for itself. */
#ifndef PULUMI_SLURM_JOB_MEMORY_H
#define PULUMI_SLURM_JOB_MEMORY_H

#include "jail.h"

#ifndef JOB_MEMORY_OWN_GROUP
#define JOB_MEMORY_OWN_GROUP "/proc/self/cgroup"
#endif
#ifndef JOB_MEMORY_GROUPS
#define JOB_MEMORY_GROUPS "/sys/fs/cgroup"
#endif

/* On cgroup v2 slurmstepd counts in its job's limit of memory, and its tasks in one of the same size below it. What
 * they wrote to /tmp stays when they are gone, so the kernel would end slurmstepd in their place, and nobody would tell
 * srun. Raises the job's own limit for slurmstepd; each of its steps may call it. Does nothing where there is no such
 * group. Returns 0, or -1 with the reason in jail->why. */
int job_memory_spare(struct jail *jail);

#endif
