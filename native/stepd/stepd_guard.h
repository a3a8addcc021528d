/* Names of the guard's symbols, which the jail's plugin looks up (dlsym). slurmstepd loads the guard before all other
 * libraries. */
#ifndef PULUMI_SLURM_STEPD_GUARD_H
#define PULUMI_SLURM_STEPD_GUARD_H

#include <stdbool.h>

typedef int stepd_execve(const char *path, char *const arguments[], char *const environment[]);

/* A pointer to the function that replaces execve in slurmstepd and its libraries; NULL for the kernel's. */
#define STEPD_GUARD_EXECVE "stepd_guard_execve"
/* True if slurm.conf has a TaskEpilog. */
#define STEPD_GUARD_EPILOG "stepd_guard_epilog"
/* True if new threads of slurmstepd and its libraries keep only the capabilities that ending a job takes. slurmstepd's
 * first thread alone starts tasks. */
#define STEPD_GUARD_REDUCES "stepd_guard_reduces"

extern stepd_execve *stepd_guard_execve;
extern bool stepd_guard_epilog;
extern bool stepd_guard_reduces;

/* For the guard itself: slurmstepd's first thread comes once it has all of its step. */
void stepd_guard_has_step(void);

/* Notes which file stepd_unwinder.c may load later. */
void stepd_unwinder_init(void);

#endif
