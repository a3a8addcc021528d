/* What the guard, a library that slurmstepd needs before all others, has for the jail's plugin, by name (dlsym). */
#ifndef PULUMI_SLURM_STEPD_GUARD_H
#define PULUMI_SLURM_STEPD_GUARD_H

#include <stdbool.h>
#include <time.h>

typedef int stepd_execve(const char *path, char *const arguments[], char *const environment[]);

/* A pointer: what slurmstepd and its libraries call for execve, or NULL for the kernel's. */
#define STEPD_GUARD_EXECVE "stepd_guard_execve"
/* Whether slurm.conf has a TaskEpilog. */
#define STEPD_GUARD_EPILOG "stepd_guard_epilog"
/* What ends slurmstepd unless it has its step in time; the plugin deletes it. */
#define STEPD_GUARD_TIMER "stepd_guard_timer"

extern stepd_execve *stepd_guard_execve;
extern bool stepd_guard_epilog;
extern timer_t stepd_guard_timer;

#endif
