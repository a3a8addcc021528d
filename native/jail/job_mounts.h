/* What a job sees of a node beside the shared root: two mount namespaces for each job.
 *
 * The outer one is slurmstepd's: the jail as root, with the job's own /tmp, /dev/shm, /dev/pts and /run. slurmd's
 * spool, cgroups and the pod's /proc stay as slurmstepd works with them. The inner one is the tasks': the job's own
 * /proc, masked; cgroups read-only; in the place of Slurm's sockets the door (sack_door.c); of slurmd's spool only what
 * a task reads. */
#ifndef PULUMI_SLURM_VIEW_H
#define PULUMI_SLURM_VIEW_H

#include "jail.h"

#define VIEW_SPOOL "/var/spool/slurmd"
#define VIEW_CGROUPS "/sys/fs/cgroup"

/* Each is called in the jail, in a mount namespace that the caller made for it. Each returns 0, or -1 with a reason. */

/* The file systems of the job's own, by their devices. */
struct job_mounts {
    dev_t own[4];
};

int job_mounts_make_outer(struct jail *jail, struct job_mounts *mounts);

/* Are those still there? The kernel may have taken one away with what it stood on, and the node's may have come in its
 * place. Ask when nothing more can come. */
int job_mounts_verify_outer(struct jail *jail, const struct job_mounts *mounts);

/* Takes what belongs to the node out of a user's reach: cgroups, Slurm's own sockets, slurmd's spool.
 * script: a folder below the spool that is to be kept free for job_mounts_place, or NULL. */
int job_mounts_hide_node(struct jail *jail, const char *script);

/* A /proc of the caller's process namespace, with what container runtimes mask, and message queues of its own. */
int job_mounts_make_proc(struct jail *jail);

/* Picks a folder of this namespace up, read-only, to be placed in another one; returns a descriptor, or -1. */
int job_mounts_pick_up(struct jail *jail, const char *path);
int job_mounts_place(struct jail *jail, int folder, const char *path);

#endif
