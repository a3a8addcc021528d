/* The namespaces of a job on this node: mount (two, see job_mounts.h), process and IPC, shared by all its steps.
 *
 * The job's extern step starts job_init (job_init.c), process 1 of the job's process namespace, which ends with that
 * step. The kernel then ends the rest of the job, and its /tmp, /dev/shm and mounts vanish. job_init holds locks on a
 * file named after the job. The locks tell its process id and vanish with it, so a stale file misleads nobody. Only a
 * step that comes before the namespaces are made, or before the extern step is confined, waits. */
#ifndef PULUMI_SLURM_JOB_H
#define PULUMI_SLURM_JOB_H

#include "contract.h"
#include "jail.h"

#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* job_init's descriptors of the outer mount namespace and of the job's file. */
#define JOB_OUTER_DESCRIPTOR 3
#define JOB_LOCK_DESCRIPTOR 4
/* Three bytes of the job's file serve as locks, each at its offset. The file also has the reason why namespaces can't
 * be made: job_init writes it, and ends. The third lock is JOB_LIVES of contract.h: job_init holds it while it lives.
 */
/* The extern step holds this lock until job_init is born and the step has confined itself. */
#define JOB_STARTS 0
/* job_init holds this lock until the namespaces are made. */
#define JOB_MAKES 2

struct job {
    uint32_t id;
    bool kept; /* job_keep sets the rest */
    const char *root;
    int lock;
    sigset_t mask; /* signal mask of job_keep's caller */
    /* NULL, or what a thread of job_keep's does after job_init's exec; the job's steps wait for it. On failure
     * it returns -1 with the reason in jail->why, and the job has no namespaces. */
    int (*confine)(struct jail *jail);
    sem_t started;                    /* posted when job_init's exec and `confine` are done, or have failed */
    pid_t init;                       /* after it: job_init, or 0 */
    int outer, inner, processes, ipc; /* descriptors of the namespaces, or -1 */
    int own_processes;
};

/* Each returns 0, or -1 with the reason in jail->why. */

void job_prepare(struct job *job, uint32_t id);

/* Starts job_init, which makes the namespaces and ends with the calling thread. A failure after the return is written
 * to the job's file, for the steps that look for them. Both arguments must stay until job_end. */
int job_keep(struct jail *jail, struct job *job);

/* For job_keep's caller, which has set `confine`: lets job_init begin, and then `confine`. Returns at once. */
void job_may_begin(struct job *job);

/* For job_keep's caller: waits until job_init's exec and `confine` are done or have failed. */
void job_await_start(struct job *job);

/* For job_keep's caller: waits until the namespaces are made. With `confine`, call job_may_begin before. */
int job_await(struct jail *jail, struct job *job, int seconds);

/* Ends job_init, and with it all processes in the namespaces. Does nothing before job_keep. */
void job_end(struct job *job);

/* Fails while the node's jail probes fail. Does not touch the storage. */
int job_heed_probes(struct jail *jail);

/* Notes that the plugin refused a batch job. slurmctld drains the node for it, and the cause may pass before the node's
 * own probes find it. The note tells the node that it may lift that drain. Works in the pod's root alone. */
void job_leave_refusal(const struct jail *jail);

/* Waits for the job's namespaces, and moves the calling thread into the outer mount namespace. Its root is then the
 * jail. Fails while this node's probes fail. */
int job_join(struct jail *jail, struct job *job, int seconds);

/* The same for a probe: an earlier probe's failure does not make it fail. */
int job_join_probe(struct jail *jail, struct job *job, int seconds);

/* Children of the calling thread are born into the job's process namespace from now on, until job_fork_outside. Root
 * has to be the real or saved user; the effective one may be another. */
int job_fork_inside(struct jail *jail, const struct job *job);
int job_fork_outside(struct jail *jail, const struct job *job);

/* For a task, in its own process: joins the inner mount namespace and the IPC namespace. Fails unless the task was born
 * into the process namespace. script: folder below the spool that a batch task needs, or NULL. */
int job_enter_task(struct jail *jail, const struct job *job, const char *script);

#endif
