/* The step that a slurmstepd runs, and what its children may become: tasks, processes of plugins, late programs. */
#ifndef PULUMI_SLURM_STEP_CHILDREN_H
#define PULUMI_SLURM_STEP_CHILDREN_H

#include "jail.h"
#include "job.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <slurm/spank.h>

#define PLUGIN "jail"
/* srun's plugin tells the step's plugin by it that the user wants a task epilog. Slurm passes on variables that begin
 * with SLURM_, despite --export. A user who sets it himself gets a runner that nobody asks. */
#define WANTS_EPILOG "SLURM_JAIL_TASK_EPILOG"

struct step {
    struct jail jail;
    struct job job;
    uint32_t id;
    bool forks_tasks; /* between user_init and the first task_post_fork */
    bool is_task;
    bool is_user;       /* in a task: its user's, in the task's groups */
    bool confined;      /* by stepd_filter */
    bool expects_forks; /* a plugin of somebody else's is loaded that forks by spank_jail_fork */
    bool led_forks;     /* one has started a process so before the tasks */
    int runner[2];      /* to late_runner, and its own end; or -1 */
    pthread_t forker;
};

/* SPANK callbacks have no place for their own data. slurmstepd runs one step, so one is enough. */
extern struct step step;

/* Tells whether this is the extern step, which keeps the job's namespaces and runs no user code. */
bool step_keeps_namespaces(void);

/* Tells whether this is slurmstepd, or a child of it, in the jail. */
bool step_is_inside(void);

/* Writes to the container's log why the step must not run outside the jail: jail->why. */
void step_tell_node(const struct jail *jail);

/* Returns a symbol of slurmstepd's guard (stepd_guard.h), or NULL without it. */
void *step_guard_symbol(const char *name);

/* Called once slurmstepd has entered the jail: its children before the tasks are no tasks. Returns 0, or -1 with the
 * reason in jail->why. */
int step_watch_forks(void);

/* From now on this thread's children are tasks. Prepares a runner for a task epilog, if there is one, and for what
 * plugins start after the tasks. Returns 0, or -1 with the reason in jail->why. */
int step_begin_tasks(spank_t spank);

/* Tells whether slurm.conf or the user has a task epilog. */
bool step_wants_epilog(spank_t spank);

/* For a task, as its user: starts the runner, at the first call. Returns 0, or -1 with the reason in jail->why. */
int step_start_runner(void);

/* Children of slurmstepd that want to become a program have the step's runner start it (late_program.h). */
void step_take_late_programs(void);

/* Enters the job's namespaces as a task does, and gives up the right to leave them. script: of a batch job, or NULL.
 * Returns 0, or -1 with the reason in jail->why. */
int step_become_inner(const char *script);

#endif
