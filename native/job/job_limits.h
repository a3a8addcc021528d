/* Limits of a job that Slurm does not set, or sets without room for slurmstepd. */
#ifndef PULUMI_SLURM_JOB_LIMITS_H
#define PULUMI_SLURM_JOB_LIMITS_H

#include "jail.h"

#ifndef JOB_LIMITS_OWN_GROUP
#define JOB_LIMITS_OWN_GROUP "/proc/self/cgroup"
#endif
#ifndef JOB_LIMITS_GROUPS
#define JOB_LIMITS_GROUPS "/sys/fs/cgroup"
#endif

/* Sets limits of the job's group on cgroup v2; slurmstepd calls it at each step's start. Does nothing elsewhere.
 *
 * Memory: slurmstepd counts in its job's limit, and its tasks in one of the same size below it. Files in /tmp outlive
 * the tasks, so the kernel would end slurmstepd next, and nobody would tell srun. The job's own limit gets 32 MiB more.
 *
 * Processes: a step's tasks may have half of what the node's jobs may have, and their job 64 more for slurmstepd. One
 * that forks without end leaves the other half to other jobs, their slurmstepd, and slurmd.
 *
 * Returns 0, or -1 with the reason in jail->why. */
int job_limits_set(struct jail *jail);

#endif
