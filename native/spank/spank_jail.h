/* The jail plugin's functions for other plugins, which call them through confined_fork.c. */
#ifndef PULUMI_SLURM_SPANK_JAIL_H
#define PULUMI_SLURM_SPANK_JAIL_H

#include <sys/types.h>

#include "contract.h"
#define SPANK_JAIL_FORK "spank_jail_fork"
#define SPANK_JAIL_EXPECT_FORKS "spank_jail_expect_forks"

/* Forks a child that is confined as a task is: by the job's mounts, processes, IPC, capabilities and system calls. In a
 * task, in srun and in slurmd it is plain fork. So it is in slurmstepd after the step's tasks. If the plugin
 * forked before or in a task, too, what the child executes runs inside the job (late_program.h). */
pid_t spank_jail_fork(void);

/* Says that a plugin is loaded that calls spank_jail_fork. */
void spank_jail_expect_forks(void);

#endif
