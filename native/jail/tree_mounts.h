/* Checks that the mounts of this node's view of the jail are still there.
 *
 * Their mount points lie in the shared root. Users can remove or rename one on a node that has nothing mounted there.
 * The kernel then removes the mount on all other nodes. It also removes it when the storage fails to answer for the
 * path. Jobs would find the shared root's own folder in its place. */
#ifndef PULUMI_SLURM_TREE_MOUNTS_H
#define PULUMI_SLURM_TREE_MOUNTS_H

#include "jail.h"

/* Looks at each path that the tree's marker names. No link is followed, so that none stands in for a mount. Returns 0,
 * or -1 with the reason in jail->why. */
int mounts_check(struct jail *jail, int tree);

#endif
