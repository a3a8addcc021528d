/* What the guard has in the place of the C library's open, chdir and mkdir, for slurmstepd alone. */
#ifndef PULUMI_SLURM_STEPD_OPEN_H
#define PULUMI_SLURM_STEPD_OPEN_H

/* Before it slurmstepd opens as the C library does. */
void stepd_open_init(void);

#endif
