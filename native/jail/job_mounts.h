/* A job's view of a node beside the shared root: two mount namespaces for each job.
 *
 * The outer one is slurmstepd's: the jail as root, with the job's own /tmp, /dev/shm, /dev/pts and /run. slurmd's
 * spool, cgroups and the pod's /proc stay as slurmstepd needs them. The inner one is the tasks'. It has the job's own
 * /proc, masked, and read-only cgroups. The door (sack_door.c) replaces Slurm's sockets. Of slurmd's spool it has only
 * the files that a task reads. */
#ifndef PULUMI_SLURM_JOB_MOUNTS_H
#define PULUMI_SLURM_JOB_MOUNTS_H

#include "jail.h"

/* Each is called in the jail, in a mount namespace that the caller made for it. Each returns 0, or -1 with a reason. */

/* The file systems of the job's own, by their devices. */
struct job_mounts {
    dev_t own[4];
};

int job_mounts_make_outer(struct jail *jail, struct job_mounts *mounts);

/* Checks that these mounts are still there. The kernel may have removed one together with its mount point, and the
 * node's may have come in its place. Call it when no further mount can arrive. */
int job_mounts_verify_outer(struct jail *jail, const struct job_mounts *mounts);

/* Takes the node's parts out of a user's reach: cgroups, Slurm's own sockets, slurmd's spool.
 *
 * script: a folder below the spool to keep free for job_mounts_place, or NULL. */
int job_mounts_hide_node(struct jail *jail, const char *script);

/* Mounts a /proc of the caller's process namespace, masked as container runtimes do, and its own message queues. */
int job_mounts_make_proc(struct jail *jail);

/* Picks up a folder of this namespace, read-only, to place it in another one; returns a descriptor, or -1. */
int job_mounts_pick_up(struct jail *jail, const char *path);
int job_mounts_place(struct jail *jail, int folder, const char *path);

#endif
