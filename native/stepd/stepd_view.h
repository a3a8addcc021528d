/* slurmstepd's view of the pod. */
#ifndef PULUMI_SLURM_STEPD_VIEW_H
#define PULUMI_SLURM_STEPD_VIEW_H

#include <stddef.h>

/* Makes a mount namespace of slurmstepd's own, which all its threads share. There secrets are covered, and /run is
 * read-only but for the node's own folder. Later mounts of the pod still arrive. Returns 0, or -1 with the reason in
 * why. */
int stepd_view_make(char *why, size_t size);

#endif
