/* The jail plugin's functions for other plugins, which call them through confined_fork.c. */
#ifndef PULUMI_SLURM_SPANK_JAIL_H
#define PULUMI_SLURM_SPANK_JAIL_H

#include <sys/types.h>

#include "contract.h"
#define SPANK_JAIL_FORK "spank_jail_fork"

/* Forks a child that is confined as a task is: by the job's mounts, processes, IPC, capabilities and system calls. In a
 * task, in srun and in slurmd it is plain fork. After the step's tasks it works only if it was called before them:
 * slurmstepd then keeps the rights for it. Else it returns -1 with EPERM. */
pid_t spank_jail_fork(void);

#endif
