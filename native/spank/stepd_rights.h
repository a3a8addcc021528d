/* The capabilities that slurmstepd has once its tasks run; the extern step's, before a step of its job may begin. */
#ifndef PULUMI_SLURM_STEPD_RIGHTS_H
#define PULUMI_SLURM_STEPD_RIGHTS_H

#include "jail.h"

/* Takes from all threads of this process the capabilities that ending a job does not need. Most threads were born
 * without them (stepd_threads.c). Each other one drops its own in a signal's handler. Any thread may call it, once
 * in a process. Returns 0, or -1 with the reason in jail->why: then some threads may have lost theirs. */
int stepd_rights_reduce(struct jail *jail);

/* The same for this thread alone: in a child that has no other. */
int stepd_rights_reduce_here(struct jail *jail);

#endif
