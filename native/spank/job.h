/* The namespaces of a job on this node: mount (two, see job_mounts.h), process and IPC, shared by all its steps.
 *
 * The job's extern step starts job_init (job_init.c), which is process 1 of the job's process namespace and ends
 * with the extern step: then the kernel ends what is left of the job, and its /tmp, /dev/shm and mounts are gone. The
 * init holds locks on a file named after the job; they say which process it is and vanish with it, so a stale file
 * misleads nobody. Nobody waits while it starts and makes the namespaces but a step that comes before they are made. */
#ifndef PULUMI_SLURM_JOB_H
#define PULUMI_SLURM_JOB_H

#include "jail.h"

#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#ifndef JOB_FOLDER
#define JOB_FOLDER "/run/slurm-node/jobs"
#endif
#ifndef JOB_INIT
#define JOB_INIT "/opt/slurm/libexec/job_init"
#endif
/* The leaf of the pod's own processes on cgroup v2 (slurm_node/pod/cgroups.py). */
#ifndef JOB_INIT_GROUP
#define JOB_INIT_GROUP "/sys/fs/cgroup/pod/cgroup.procs"
#endif
/* Written by slurm_node/conditions/jail_watch.py while probes fail: why. */
#ifndef JOB_BROKEN
#define JOB_BROKEN "/run/slurm-node/broken"
#endif
/* Read by slurm_node/conditions/drains.py: why the prolog, or the plugin, refused a job, for which slurmctld drains the
 * node. */
#ifndef JOB_REFUSED
#define JOB_REFUSED "/run/slurm-node/prolog-refused"
#endif
/* job_init's descriptors of the outer mount namespace and of the job's file. */
#define JOB_OUTER_DESCRIPTOR 3
#define JOB_LOCK_DESCRIPTOR 4
/* Bytes of the job's file that are locked: by the extern step until job_init is there; by job_init since it was
 * born, for as long as it lives, and until the namespaces are made. If they can't be made, the file says why and the
 * init ends. */
#define JOB_STARTS 0
#define JOB_LIVES 1
#define JOB_MAKES 2

struct job {
    uint32_t id;
    bool kept; /* by job_keep: what follows */
    const char *root;
    int lock;
    sigset_t mask;                    /* of signals, of who called it */
    sem_t born;                       /* job_init is there, or cannot be */
    sem_t started;                    /* whether it could be made another program is known */
    pid_t init;                       /* then: job_init, or 0 */
    int outer, inner, processes, ipc; /* descriptors of the namespaces, or -1 */
    int own_processes;
};

/* Each returns 0, or -1 with the reason in jail->why. */

void job_prepare(struct job *job, uint32_t id);

/* Lets a thread of this process start job_init, which makes the namespaces. Any reason is left for the steps that
 * will look for them, so what fails after the return is theirs to tell. Both arguments must stay until job_end. */
int job_keep(struct jail *jail, struct job *job);

/* For who called job_keep: waits until job_init is another program, or can't be; then the thread that keeps it starts
 * nothing more, and takes signals as the caller of job_keep did. */
void job_await_start(struct job *job);

/* For who called job_keep: waits until the namespaces are made. */
int job_await(struct jail *jail, struct job *job, int seconds);

/* Ends job_init, and with it all that runs in the namespaces; without job_keep nothing. */
void job_end(struct job *job);

/* Fails while the node's jail probes do. Asks the storage nothing. */
int job_heed_probes(struct jail *jail);

/* slurmctld drains the node for a batch job that did not start, also where the cause is gone before the node's own
 * probes find it: by this the node knows that the drain is its own to lift. In the pod's root alone. */
void job_leave_refusal(const struct jail *jail);

/* Finds the job's namespaces, once they are made, unless this node's probes fail, and makes the outer mount namespace
 * the calling thread's, whose root is then the jail. */
int job_join(struct jail *jail, struct job *job, int seconds);

/* The same for a probe, which is not to fail for the one before it. */
int job_join_probe(struct jail *jail, struct job *job, int seconds);

/* From now on, or until job_fork_outside, children of the calling thread are born into the job's process namespace. The
 * effective user may be another than root, as long as root is the real or saved one. */
int job_fork_inside(struct jail *jail, const struct job *job);
int job_fork_outside(struct jail *jail, const struct job *job);

/* For a task, a process of its own: joins the inner mount namespace and the IPC namespace, and makes sure that it was
 * born into the process namespace. script: folder below the spool that a batch task needs, or NULL. */
int job_enter_task(struct jail *jail, const struct job *job, const char *script);

#endif
