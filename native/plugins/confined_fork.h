/* What a plugin of somebody else's calls in place of fork and setns. */
#ifndef PULUMI_SLURM_CONFINED_FORK_H
#define PULUMI_SLURM_CONFINED_FORK_H

#include <sys/types.h>

/* fork, by the jail's plugin; -1 with ENOSYS where that is not loaded. */
pid_t confined_fork(void);

/* setns, which leaves cgroup namespaces alone. A job is refused new ones, so there is none to join but its own. The
 * kernel refuses that to whoever is in a user namespace. */
int confined_setns(int file, int kind);

#endif
