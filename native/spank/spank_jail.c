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
 *     task epilog runs where the tasks ran (late_program.h).
 */
#include "spank_jail.h"
#include "confine.h"
#include "container_log.h"
#include "jail.h"
#include "job.h"
#include "job_limits.h"
#include "job_mounts.h"
#include "late_program.h"
#include "srun_asks.h"
#include "stepd_filter.h"
#include "stepd_guard.h"
#include "stepd_rights.h"

#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/spank.h>

#define PLUGIN "jail"
#define DEADLINE_SECONDS 10
/* srun's plugin tells the step's plugin by it that the user wants a task epilog. Slurm passes on variables that begin
 * with SLURM_, despite --export. A user who sets it himself gets a runner that nobody asks. */
#define WANTS_EPILOG "SLURM_JAIL_TASK_EPILOG"

SPANK_PLUGIN(PLUGIN, 2);

/* SPANK callbacks have no place for their own data. slurmstepd runs one step, so one context is enough. */
static struct {
    struct jail jail;
    struct job job;
    uint32_t step;
    bool forks_tasks; /* between user_init and the first task_post_fork */
    bool is_task;
    bool confined;  /* by stepd_filter */
    bool led_forks; /* a plugin of somebody else's has started a process by spank_jail_fork */
    int runner[2];  /* to late_runner, and its own end; or -1 */
    pthread_t forker;
} context = {.runner = {-1, -1}};

static _Thread_local bool forks_for_plugin;

/* Folders that slurmstepd needs to report a step that must not run, and to clean up after it. */
static const char *const stepd_folders[] = {"/proc", "/sys", "/dev", "/etc", SLURMD_SPOOL, "/run/slurm", NULL};

static const char *jail_root(int argc, char *argv[]) {
    for (int i = 0; i < argc; i++)
        if (!strncmp(argv[i], "jail=", strlen("jail=")))
            return argv[i] + strlen("jail=");
    return JAIL_DEFAULT_ROOT;
}

static bool keeps_namespaces(void) {
    return context.step == SLURM_EXTERN_CONT;
}

static bool is_inside(void) {
    return spank_context() == S_CTX_REMOTE && !keeps_namespaces() && context.jail.state == JAIL_ENTERED;
}

static void tell_the_node(void) {
    slurm_error(PLUGIN ": refusing to run the step outside the jail: %s", context.jail.why);
    container_log("slurmstepd: error: " PLUGIN ": refusing to run a step outside the jail: %s\n", context.jail.why);
}

/* Returns a symbol of the guard. slurmstepd links the guard, so every library sees its names. */
static void *of_guard(const char *name) {
    return dlsym(RTLD_DEFAULT, name);
}

/* Returns 0 even on failure: a failed extern step would end the job without a message. It runs no user code. Steps that
 * find no namespaces tell their user. */
static int keep_namespaces(void) {
    /* The thread that it makes makes the namespaces. */
    bool *reduces = of_guard(STEPD_GUARD_REDUCES), before = reduces && *reduces;
    if (reduces)
        *reduces = false;
    if (job_keep(&context.jail, &context.job))
        tell_the_node();
    if (reduces)
        *reduces = before;
    return ESPANK_SUCCESS;
}

static int refuse(void) {
    tell_the_node();
    if (context.step == SLURM_BATCH_SCRIPT)
        job_leave_refusal(&context.jail);
    /* A batch script has no open output yet: fail here, so that Slurm drains the node and requeues the job. */
    if (context.step == SLURM_BATCH_SCRIPT || context.jail.state == JAIL_ENTERED)
        return ESPANK_ERROR;
    /* Other steps go on until their user's stderr is open, in a root that holds no program. */
    if (jail_enter_refusal(&context.jail, stepd_folders)) {
        slurm_error(PLUGIN ": and no empty root either: %s", context.jail.why);
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

static bool forks_a_task(void) {
    return context.forks_tasks && pthread_equal(context.forker, pthread_self());
}

/* Ignores failures: a task that was born outside notices it and says so (job_enter_task). */
static void before_fork(void) {
    if (forks_a_task() && job_fork_inside(&context.jail, &context.job))
        slurm_error(PLUGIN ": %s", context.jail.why);
}

static void after_fork(void) {
    if (forks_a_task() && job_fork_outside(&context.jail, &context.job))
        slurm_error(PLUGIN ": %s", context.jail.why);
}

/* Forbids exec to a child that is neither a task nor a plugin's child by spank_jail_fork. Such a child is outside of
 * the job, as slurmstepd is: it may run Slurm's own code only. */
static void in_child(void) {
    bool task = forks_a_task();
    context.forks_tasks = false;
    if (task || context.is_task || context.confined || forks_for_plugin)
        return;
    if (stepd_filter(&context.jail) || stepd_rights_reduce_here(&context.jail)) {
        tell_the_node();
        _exit(EXIT_FAILURE);
    }
}

/* Called once slurmstepd has entered the jail: its children before the tasks are no tasks. */
static int watch_forks(void) {
    return pthread_atfork(before_fork, after_fork, in_child) ? jail_fail(&context.jail, "no memory to watch forks") : 0;
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
    timer_t *timer = (timer_t *)of_guard(STEPD_GUARD_TIMER);
    if (timer)
        timer_delete(*timer);
    spank_err_t asked = spank_get_item(spank, S_JOB_STEPID, &context.step);
    if (asked == ESPANK_SUCCESS)
        asked = spank_get_item(spank, S_JOB_ID, &job);
    if (asked != ESPANK_SUCCESS) {
        slurm_error(PLUGIN ": which step is this? %s: refusing to run it", spank_strerror(asked));
        return ESPANK_ERROR;
    }
    jail_init(&context.jail, jail_root(argc, argv));
    job_prepare(&context.job, job);
    if (keeps_namespaces())
        return keep_namespaces();
    jail_preload_nss();
    if (job_heed_probes(&context.jail))
        return refuse();
    jail_look_users_up_in_files();
    if (job_join(&context.jail, &context.job, DEADLINE_SECONDS) || watch_forks())
        return refuse();
    slurm_debug(PLUGIN ": entered %s", context.jail.root);
    return ESPANK_SUCCESS;
}

static int outcome_of(int failed) {
    if (failed)
        slurm_error("this node can't run your job inside the jail: %s. Nothing was run; tell your administrator.",
                    context.jail.why);
    return failed ? ESPANK_ERROR : ESPANK_SUCCESS;
}

/* Replaces execve in a child of slurmstepd that is no task. */
static int run_late(const char *path, char *const arguments[], char *const environment[]) {
    if (context.runner[0] < 0) {
        slurm_error(PLUGIN ": %s: slurmstepd starts no program outside of the job, and for this step none inside",
                    path);
        errno = EPERM;
        return -1;
    }
    late_program(&context.jail, context.runner[0], path, arguments, environment);
    slurm_error(PLUGIN ": the task epilog %s (--task-epilog, or TaskEpilog of slurm.conf) did not run in the job: %s",
                path, errno ? strerror(errno) : context.jail.why);
    _exit(127);
}

static bool wants_epilog(spank_t spank) {
    char told[2];
    const bool *configured = of_guard(STEPD_GUARD_EPILOG);
    return (configured && *configured) || spank_getenv(spank, WANTS_EPILOG, told, sizeof(told)) == ESPANK_SUCCESS;
}

static int arm(spank_t spank) {
    stepd_execve **instead = (stepd_execve **)of_guard(STEPD_GUARD_EXECVE);
    if (!instead)
        return jail_fail(&context.jail, "slurmstepd runs without its guard");
    if (wants_epilog(spank) && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, context.runner))
        return jail_fail_errno(&context.jail, "make a socket for the task epilog");
    return 0;
}

/* Switches the children's namespace only around each fork. The kernel refuses new threads to a thread whose children
 * are born in another process namespace. slurmstepd starts threads when the plugin after this one fails; without them
 * it would end, and srun would learn nothing. */
int slurm_spank_user_init(spank_t spank, int argc, char *argv[]) {
    (void)argc;
    (void)argv;
    if (!is_inside())
        return ESPANK_SUCCESS;
    context.forks_tasks = true;
    context.forker = pthread_self();
    return outcome_of(arm(spank));
}

/* Order matters: the last call gives up the right to make the ones before it. */
static int become_inner(const char *script) {
    return jail_verify(&context.jail) || job_enter_task(&context.jail, &context.job, script) ||
           jail_verify(&context.jail) || confine(&context.jail);
}

pid_t spank_jail_fork(void) {
    if (!is_inside() || context.is_task)
        return fork();
    bool of_itself = forks_a_task();
    if (context.confined) {
        slurm_error(PLUGIN ": a plugin that started no process before the tasks may start none after them");
        errno = EPERM;
        return -1;
    }
    context.led_forks = true;
    if (!of_itself && job_fork_inside(&context.jail, &context.job))
        return -1;
    forks_for_plugin = true;
    pid_t child = fork();
    forks_for_plugin = false;
    if (child == 0) {
        context.is_task = true;
        /* In user_init the effective user is the job's. A child that forks here becomes that user for good
         * afterwards. */
        if (!seteuid(0) && !become_inner(NULL))
            return 0;
        tell_the_node();
        _exit(EXIT_FAILURE);
    }
    if (!of_itself && job_fork_outside(&context.jail, &context.job))
        slurm_error(PLUGIN ": %s", context.jail.why);
    return child;
}

static bool is_last_task(spank_t spank) {
    int task = -1;
    uint32_t tasks = 0;
    return spank_get_item(spank, S_TASK_ID, &task) != ESPANK_SUCCESS ||
           spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &tasks) != ESPANK_SUCCESS || task + 1 >= (int)tasks;
}

static int confine_slurmstepd(void) {
    return stepd_filter(&context.jail) || stepd_rights_reduce(&context.jail) ? -1 : 0;
}

/* Confines the extern step, whose only child is job_init. If that fails, no step finds the namespaces. */
static int confine_extern_step(void) {
    job_await_start(&context.job);
    if (!confine_slurmstepd())
        return ESPANK_SUCCESS;
    tell_the_node();
    job_end(&context.job);
    return ESPANK_ERROR;
}

/* Called once for each task, when all tasks are forked and wait for their exec. Called once for the extern step. */
int slurm_spank_task_post_fork(spank_t spank, int argc, char *argv[]) {
    (void)argc;
    (void)argv;
    context.forks_tasks = false;
    if (spank_context() != S_CTX_REMOTE || (!keeps_namespaces() && !is_last_task(spank)))
        return ESPANK_SUCCESS;
    if (job_limits_set(&context.jail))
        slurm_error(PLUGIN ": the job's limits may end slurmstepd: %s", context.jail.why);
    if (keeps_namespaces())
        return confine_extern_step();
    if (context.runner[1] >= 0)
        close(context.runner[1]);
    stepd_execve **instead = (stepd_execve **)of_guard(STEPD_GUARD_EXECVE);
    if (instead)
        *instead = run_late;
    /* A plugin such as Pyxis also forks when tasks end, to save and remove containers. Those processes must still enter
     * the jail, which the filter would refuse. So there is no filter. */
    context.confined = !context.led_forks;
    if (!context.confined)
        return ESPANK_SUCCESS;
    return outcome_of(confine_slurmstepd());
}

/* Runs as the user, in the task's groups, before the exec of the user's program. */
int slurm_spank_task_init(spank_t spank, int argc, char *argv[]) {
    int task = -1;
    (void)argc;
    (void)argv;
    if (context.runner[1] < 0 || spank_get_item(spank, S_TASK_ID, &task) != ESPANK_SUCCESS || task != 0)
        return ESPANK_SUCCESS;
    return outcome_of(late_start_runner(&context.jail, context.runner[1]));
}

int slurm_spank_task_init_privileged(spank_t spank, int argc, char *argv[]) {
    char script[64];
    (void)spank;
    (void)argc;
    (void)argv;
    if (keeps_namespaces())
        return ESPANK_SUCCESS;
    snprintf(script, sizeof(script), SLURMD_SPOOL "/job%05u", context.job.id);
    bool batch = context.step == SLURM_BATCH_SCRIPT;
    context.is_task = true;
    return outcome_of(become_inner(batch ? script : NULL));
}

int slurm_spank_exit(spank_t spank, int argc, char *argv[]) {
    (void)spank;
    (void)argc;
    (void)argv;
    if (spank_context() == S_CTX_REMOTE && keeps_namespaces())
        job_end(&context.job);
    return ESPANK_SUCCESS;
}
