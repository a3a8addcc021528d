/* SPANK plugin: job steps have the jail as their root, and the job's own namespaces.
 *
 *   required /opt/slurm/lib/slurm-wlm/spank_jail.so jail=/run/jail
 *
 * The extern step keeps the namespaces (job.h): slurmd starts it before all other steps and ends it after them. In
 * every other step
 *
 *   - slurm_spank_init_post_opt changes the root. It is the last callback before slurmstepd opens the user's files and
 *     enters the working folder.
 *   - slurm_spank_user_init is the last callback before slurmstepd forks the tasks. Children forked after it are born
 *     into the job's process namespace.
 *   - task_init_privileged refuses to start the user's program unless it is inside.
 *   - slurm_spank_task_post_fork, for the last task, gives up the rights that starting tasks took (stepd_filter.h). A
 *     task epilog, and what other plugins start then, runs where the tasks ran (late_program.h).
 */
#include "jail.h"
#include "job.h"
#include "job_limits.h"
#include "job_mounts.h"
#include "late_program.h"
#include "srun_asks.h"
#include "step_children.h"
#include "stepd_filter.h"
#include "stepd_guard.h"
#include "stepd_rights.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/spank.h>

#define DEADLINE_SECONDS 10

SPANK_PLUGIN(PLUGIN, 2);

/* Folders that slurmstepd needs to report a step that must not run, and to clean up after it. */
static const char *const stepd_folders[] = {"/proc", "/sys", "/dev", "/etc", SLURMD_SPOOL, "/run/slurm", NULL};

static const char *jail_root(int argc, char *argv[]) {
    for (int i = 0; i < argc; i++)
        if (!strncmp(argv[i], "jail=", strlen("jail=")))
            return argv[i] + strlen("jail=");
    return JAIL_DEFAULT_ROOT;
}

static int confine_slurmstepd(struct jail *jail) {
    return stepd_filter(jail) || stepd_rights_reduce(jail) ? -1 : 0;
}

/* Confines the extern step, whose only child is job_init. The job's steps wait for it (job.h); slurmd, and so the user,
 * do not. So slurmd never learns of a failure here; the steps do. */
static int confine_extern_step(struct jail *jail) {
    int failed = confine_slurmstepd(jail);
    if (failed)
        step_tell_node(jail);
    return failed;
}

/* Returns 0 even on failure: a failed extern step would end the job without a message. It runs no user code. Steps that
 * find no namespaces tell their user. */
static int keep_namespaces(void) {
    /* The thread that it makes confines all threads. */
    bool *reduces = step_guard_symbol(STEPD_GUARD_REDUCES), before = reduces && *reduces;
    if (reduces)
        *reduces = false;
    step.job.confine = confine_extern_step;
    if (job_keep(&step.jail, &step.job))
        step_tell_node(&step.jail);
    if (reduces)
        *reduces = before;
    return ESPANK_SUCCESS;
}

static int refuse(void) {
    step_tell_node(&step.jail);
    if (step.id == SLURM_BATCH_SCRIPT)
        job_leave_refusal(&step.jail);
    /* A batch script has no open output yet: fail here, so that Slurm drains the node and requeues the job. */
    if (step.id == SLURM_BATCH_SCRIPT || step.jail.state == JAIL_ENTERED)
        return ESPANK_ERROR;
    /* Other steps go on until their user's stderr is open, in a root that holds no program. */
    if (jail_enter_refusal(&step.jail, stepd_folders)) {
        slurm_error(PLUGIN ": and no empty root either: %s", step.jail.why);
        return ESPANK_ERROR;
    }
    return ESPANK_SUCCESS;
}

/* Refuses --bcast: slurmd would write the file outside of the jail, where no step finds it. */
static int refuse_broadcast(void) {
    if (!srun_asks_for_broadcast(optind))
        return ESPANK_SUCCESS;
    slurm_error("--bcast does not reach the jail: send the program first, with sbcast PROGRAM DEST, then srun DEST");
    return ESPANK_ERROR;
}

int slurm_spank_init_post_opt(spank_t spank, int argc, char *argv[]) {
    uint32_t job = 0;
    if (spank_context() == S_CTX_LOCAL) {
        if (srun_asks_for_epilog())
            setenv(WANTS_EPILOG, "1", 1);
        return refuse_broadcast();
    }
    if (spank_context() != S_CTX_REMOTE)
        return ESPANK_SUCCESS;
    spank_err_t asked = spank_get_item(spank, S_JOB_STEPID, &step.id);
    if (asked == ESPANK_SUCCESS)
        asked = spank_get_item(spank, S_JOB_ID, &job);
    if (asked != ESPANK_SUCCESS) {
        slurm_error(PLUGIN ": which step is this? %s: refusing to run it", spank_strerror(asked));
        return ESPANK_ERROR;
    }
    jail_init(&step.jail, jail_root(argc, argv));
    job_prepare(&step.job, job);
    if (step_keeps_namespaces())
        return keep_namespaces();
    jail_preload_nss();
    if (job_heed_probes(&step.jail))
        return refuse();
    jail_look_users_up_in_files();
    if (job_join(&step.jail, &step.job, DEADLINE_SECONDS) || step_watch_forks())
        return refuse();
    slurm_debug(PLUGIN ": entered %s", step.jail.root);
    return ESPANK_SUCCESS;
}

static int outcome_of(int failed) {
    if (failed)
        slurm_error("this node can't run your job inside the jail: %s. Nothing was run; tell your administrator.",
                    step.jail.why);
    return failed ? ESPANK_ERROR : ESPANK_SUCCESS;
}

/* Switches the children's namespace only around each fork. The kernel refuses new threads to a thread whose children
 * are born in another process namespace. slurmstepd starts threads when the plugin after this one fails; without them
 * it would end, and srun would learn nothing. */
int slurm_spank_user_init(spank_t spank, int argc, char *argv[]) {
    (void)argc;
    (void)argv;
    if (!step_is_inside())
        return ESPANK_SUCCESS;
    return outcome_of(step_begin_tasks(spank));
}

static bool is_last_task(spank_t spank) {
    int task = -1;
    uint32_t tasks = 0;
    return spank_get_item(spank, S_TASK_ID, &task) != ESPANK_SUCCESS ||
           spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &tasks) != ESPANK_SUCCESS || task + 1 >= (int)tasks;
}

/* Called once for each task, when all tasks are forked and wait for their exec. Called once for the extern step. */
int slurm_spank_task_post_fork(spank_t spank, int argc, char *argv[]) {
    (void)argc;
    (void)argv;
    step.forks_tasks = false;
    if (spank_context() != S_CTX_REMOTE || (!step_keeps_namespaces() && !is_last_task(spank)))
        return ESPANK_SUCCESS;
    if (job_limits_set(&step.jail))
        slurm_error(PLUGIN ": the job's limits may end slurmstepd: %s", step.jail.why);
    if (step_keeps_namespaces()) {
        job_may_begin(&step.job);
        return ESPANK_SUCCESS;
    }
    step_take_late_programs();
    step.confined = true;
    return outcome_of(confine_slurmstepd(&step.jail));
}

/* Runs as the user, in the task's groups, before the exec of the user's program. */
int slurm_spank_task_init(spank_t spank, int argc, char *argv[]) {
    int task = -1;
    (void)argc;
    (void)argv;
    step.is_user = true;
    bool is_wanted = step.led_forks || step_wants_epilog(spank);
    if (!is_wanted || spank_get_item(spank, S_TASK_ID, &task) != ESPANK_SUCCESS || task != 0)
        return ESPANK_SUCCESS;
    return outcome_of(step_start_runner());
}

int slurm_spank_task_init_privileged(spank_t spank, int argc, char *argv[]) {
    char script[64];
    (void)spank;
    (void)argc;
    (void)argv;
    if (step_keeps_namespaces())
        return ESPANK_SUCCESS;
    snprintf(script, sizeof(script), SLURMD_SPOOL "/job%05u", step.job.id);
    bool batch = step.id == SLURM_BATCH_SCRIPT;
    step.is_task = true;
    return outcome_of(step_become_inner(batch ? script : NULL));
}

int slurm_spank_exit(spank_t spank, int argc, char *argv[]) {
    (void)spank;
    (void)argc;
    (void)argv;
    if (spank_context() == S_CTX_REMOTE && step_keeps_namespaces())
        job_end(&step.job);
    return ESPANK_SUCCESS;
}
