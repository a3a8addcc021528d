/* Are this node's submounts in the jail still mounts?
 *
 * The folder under one lies in the shared root. Who may removes or renames it on a node that has nothing mounted there,
 * and then the kernel takes the mount away on all others: jobs would find the shared volume in its place. */
#ifndef PULUMI_SLURM_SUBMOUNTS_H
#define PULUMI_SLURM_SUBMOUNTS_H

#include "jail.h"

/* Looks at each path that the tree's marker names. No link is followed, so that none stands in for a submount. Returns
 * 0, or -1 with the reason in jail->why. */
int submounts_check(struct jail *jail, int tree);

#endif
