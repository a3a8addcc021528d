/* slurmstepd's view of the pod. */
#ifndef PULUMI_SLURM_STEPD_VIEW_H
#define PULUMI_SLURM_STEPD_VIEW_H

#include <stddef.h>
#include <stdint.h>

/* Enters the view that slurmd_start made for all slurmstepds. Makes one for this process if that one is missing, bared
 * or out of date, since the pod's mounts differ. In a view secrets are covered, and /run is read-only but for the
 * node's own folder. Later mounts in the jail's tree still arrive. Returns 0, or -1 with the reason in why. */
int stepd_view_make(char *why, size_t size);

/* Makes the view for all slurmstepds anew; those that run keep theirs. Returns 0, or -1 with the reason in why: each
 * slurmstepd then makes its own. */
int stepd_view_prepare(char *why, size_t size);

/* A number for all mounts of this process's namespace, with their options; 0 if they can't be read. */
uint64_t stepd_view_digest(void);

/* The number of the pod's mounts, if the view is of these; else 0. */
uint64_t stepd_view_noted(void);

/* Notes the number of the pod's mounts; 0 says that the view is of others. Returns 0, or -1 with errno. */
int stepd_view_note(uint64_t mounts);

/* From now on this process, slurmd, compares its mounts with those of the view before it forks. */
void stepd_view_watch(void);

#endif
