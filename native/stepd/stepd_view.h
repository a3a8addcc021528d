/* What slurmstepd sees of the pod. */
#ifndef PULUMI_SLURM_STEPD_VIEW_H
#define PULUMI_SLURM_STEPD_VIEW_H

#include <stddef.h>

/* Makes a mount namespace of slurmstepd's own, which all of its threads share: there what is secret is covered, and
 * /run is read-only but for the node's own folder. What the pod mounts later still arrives. Returns 0, or -1 with the
 * reason in why. */
int stepd_view_make(char *why, size_t size);

#endif
