/* The guard's replacements of the C library's open, chdir and mkdir, for slurmstepd alone. */
#ifndef PULUMI_SLURM_STEPD_OPEN_H
#define PULUMI_SLURM_STEPD_OPEN_H

/* Until this call slurmstepd opens as the C library does. */
void stepd_open_init(void);

#endif
