#include "step_children.h"
#include "confine.h"
#include "container_log.h"
#include "late_program.h"
#include "spank_jail.h"
#include "stepd_filter.h"
#include "stepd_guard.h"
#include "stepd_rights.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <slurm/slurm.h>

struct step step = {.runner = {-1, -1}};

static _Thread_local bool forks_for_plugin;

bool step_keeps_namespaces(void) {
    return step.id == SLURM_EXTERN_CONT;
}

bool step_is_inside(void) {
    return spank_context() == S_CTX_REMOTE && !step_keeps_namespaces() && step.jail.state == JAIL_ENTERED;
}

void step_tell_node(const struct jail *jail) {
    slurm_error(PLUGIN ": refusing to run the step outside the jail: %s", jail->why);
    container_log("slurmstepd: error: " PLUGIN ": refusing to run a step outside the jail: %s\n", jail->why);
}

/* slurmstepd links the guard, so every library sees its names. */
void *step_guard_symbol(const char *name) {
    return dlsym(RTLD_DEFAULT, name);
}

static bool forks_a_task(void) {
    return step.forks_tasks && pthread_equal(step.forker, pthread_self());
}

/* Ignores failures: a task that was born outside notices it and says so (job_enter_task). */
static void before_fork(void) {
    if (forks_a_task() && job_fork_inside(&step.jail, &step.job))
        slurm_error(PLUGIN ": %s", step.jail.why);
}

static void after_fork(void) {
    if (forks_a_task() && job_fork_outside(&step.jail, &step.job))
        slurm_error(PLUGIN ": %s", step.jail.why);
}

/* Forbids exec to a child that is neither a task nor a plugin's child by spank_jail_fork. Such a child is outside of
 * the job, as slurmstepd is: it may run Slurm's own code only. */
static void in_child(void) {
    bool task = forks_a_task();
    step.forks_tasks = false;
    if (task || step.is_task || step.confined || forks_for_plugin)
        return;
    if (stepd_filter(&step.jail) || stepd_rights_reduce_here(&step.jail)) {
        step_tell_node(&step.jail);
        _exit(EXIT_FAILURE);
    }
}

int step_watch_forks(void) {
    return pthread_atfork(before_fork, after_fork, in_child) ? jail_fail(&step.jail, "no memory to watch forks") : 0;
}

/* Order matters: the last call gives up the right to make the ones before it. */
int step_become_inner(const char *script) {
    return jail_verify(&step.jail) || job_enter_task(&step.jail, &step.job, script) || jail_verify(&step.jail) ||
           confine(&step.jail);
}

void spank_jail_expect_forks(void) {
    step.expects_forks = true;
}

int step_start_runner(void) {
    int channel = step.runner[1];
    step.runner[1] = -1;
    return channel < 0 ? 0 : late_start_runner(&step.jail, channel);
}

/* The flag stays in the child. */
static pid_t fork_for_plugin(void) {
    forks_for_plugin = true;
    pid_t child = fork();
    forks_for_plugin = child == 0;
    return child;
}

pid_t spank_jail_fork(void) {
    /* Pyxis starts a container in a task, and removes it when slurmstepd can lead no child inside any more. */
    if (step.is_user && step_start_runner())
        slurm_error(PLUGIN ": %s", step.jail.why);
    /* A child after the tasks is as confined as slurmstepd; what it executes is started inside (run_late). */
    if (!step_is_inside() || step.is_task || step.confined)
        return fork_for_plugin();
    bool of_itself = forks_a_task();
    step.led_forks = true;
    if (!of_itself && job_fork_inside(&step.jail, &step.job))
        return -1;
    pid_t child = fork_for_plugin();
    if (child == 0) {
        step.is_task = true;
        /* In user_init the effective user is the job's. A child that forks here becomes that user for good
         * afterwards. */
        if (!seteuid(0) && !step_become_inner(NULL))
            return 0;
        step_tell_node(&step.jail);
        _exit(EXIT_FAILURE);
    }
    if (!of_itself && job_fork_outside(&step.jail, &step.job))
        slurm_error(PLUGIN ": %s", step.jail.why);
    return child;
}

/* Replaces execve in a child of slurmstepd that is no task. */
static int run_late(const char *path, char *const arguments[], char *const environment[]) {
    if (step.runner[0] < 0) {
        slurm_error(PLUGIN ": %s: slurmstepd starts no program outside of the job, and for this step none inside",
                    path);
        errno = EPERM;
        return -1;
    }
    late_program(&step.jail, step.runner[0], path, arguments, environment);
    const char *why = errno ? strerror(errno) : step.jail.why;
    if (forks_for_plugin)
        slurm_error(PLUGIN ": %s, which a plugin starts, did not run in the job: %s", path, why);
    else
        slurm_error(PLUGIN
                    ": the task epilog %s (--task-epilog, or TaskEpilog of slurm.conf) did not run in the job: %s",
                    path, why);
    _exit(127);
}

bool step_wants_epilog(spank_t spank) {
    char told[2];
    const bool *configured = step_guard_symbol(STEPD_GUARD_EPILOG);
    return (configured && *configured) || spank_getenv(spank, WANTS_EPILOG, told, sizeof(told)) == ESPANK_SUCCESS;
}

int step_begin_tasks(spank_t spank) {
    step.forks_tasks = true;
    step.forker = pthread_self();
    if (!step_guard_symbol(STEPD_GUARD_EXECVE))
        return jail_fail(&step.jail, "slurmstepd runs without its guard");
    bool wants_runner = step_wants_epilog(spank) || step.expects_forks;
    if (wants_runner && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, step.runner))
        return jail_fail_errno(&step.jail, "make a socket for programs after the tasks");
    return 0;
}

void step_take_late_programs(void) {
    if (step.runner[1] >= 0)
        close(step.runner[1]);
    stepd_execve **instead = (stepd_execve **)step_guard_symbol(STEPD_GUARD_EXECVE);
    if (instead)
        *instead = run_late;
}
