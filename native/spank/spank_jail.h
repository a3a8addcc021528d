/* What the jail's plugin has for plugins of somebody else's, by way of confined_fork.c. */
#ifndef PULUMI_SLURM_SPANK_JAIL_H
#define PULUMI_SLURM_SPANK_JAIL_H

#include <sys/types.h>

#define SPANK_JAIL "/opt/slurm/lib/slurm-wlm/spank_jail.so"
#define SPANK_JAIL_FORK "spank_jail_fork"

/* fork, whose child is confined as a task is: the job's mounts, processes, IPC, capabilities and system calls. In a
 * task, in srun and in slurmd it is fork. Who has called it before the step's tasks may do so after them: slurmstepd
 * then keeps what it takes to lead its children inside. Others get -1 with EPERM there. */
pid_t spank_jail_fork(void);

#endif
