/* The capabilities that ending a job takes. */
#ifndef PULUMI_SLURM_KEPT_RIGHTS_H
#define PULUMI_SLURM_KEPT_RIGHTS_H

#include <linux/capability.h>

/* Signal the tasks; become their user and be root again; remove the script in a folder that is the user's. No job has
 * the last one. So no job's process can look into slurmstepd: for that it would need all of these. */
#define KEPT_RIGHTS (1U << CAP_KILL | 1U << CAP_SETUID | 1U << CAP_SETGID | 1U << CAP_DAC_OVERRIDE | 1U << CAP_SETPCAP)

/* Takes all others from this thread. Returns 0, or -1 with errno. */
int kept_rights_reduce(void);

#endif
