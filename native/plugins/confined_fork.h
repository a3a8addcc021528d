/* The replacements of fork, execvpe and setns for third-party plugins. */
#ifndef PULUMI_SLURM_CONFINED_FORK_H
#define PULUMI_SLURM_CONFINED_FORK_H

#include <sys/types.h>

/* fork, by the jail's plugin; -1 with ENOSYS where that is not loaded. */
pid_t confined_fork(void);

/* execvpe, by slurmstepd's guard; of PATH only whole paths count. */
int confined_execvpe(const char *file, char *const arguments[], char *const environment[]);

/* setns, but without effect for cgroup namespaces. A job can't make one, so it could only join its own. The kernel
 * refuses even that inside of a user namespace. */
int confined_setns(int file, int kind);

#endif
