/* Has a child of slurmd read a user's launch first: the child may crash or hang in slurmd's place. It checks the launch
 * and its credential (launch_check.c, launch_credential.c). */
#include "message_guard.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CPU_SECONDS 1

/* Time for each try to read a launch. Another thread of slurmd may hold a lock at the fork, which nobody gives
 * back in the child: this happens to about one launch in two thousand when 64 come at once. */
static const unsigned try_milliseconds[] = {250, 1000, 4000};
#define TRIES (sizeof(try_milliseconds) / sizeof(try_milliseconds[0]))

static _Noreturn void read_in_child(void *message, void *buffer, uint16_t version, unsigned milliseconds) {
    const struct itimerval deadline = {
        .it_value = {.tv_sec = milliseconds / 1000, .tv_usec = (suseconds_t)(milliseconds % 1000) * 1000}};
    const struct rlimit none = {0}, cpu = {.rlim_cur = CPU_SECONDS, .rlim_max = CPU_SECONDS};
    sigset_t signals;
    sigemptyset(&signals);
    signal(SIGALRM, SIG_DFL);
    sigprocmask(SIG_SETMASK, &signals, NULL);
    setitimer(ITIMER_REAL, &deadline, NULL);
    /* The child says nothing: the parent reads the message next, and logs Slurm's errors about it. */
    close(STDERR_FILENO);
    if (!prctl(PR_SET_PDEATHSIG, SIGKILL) && !setrlimit(RLIMIT_CORE, &none) && !setrlimit(RLIMIT_CPU, &cpu)) {
        launch_begin(buffer, version);
        _exit((int)launch_judge(!guard_read_body(message, buffer)));
    }
    raise(SIGKILL);
    _exit(EXIT_FAILURE);
}

/* Returns the status of a child that read a launch, or -1. */
static int status_of_reader(void *message, void *buffer, uint16_t version, unsigned milliseconds) {
    int status = -1;
    pid_t child = fork();
    if (child == 0)
        read_in_child(message, buffer, version, milliseconds);
    while (child > 0 && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

const char *launch_fault(void *message, void *buffer, uint16_t version) {
    static const char *const faults[] = {
        [FITS] = NULL,
        [TOO_MANY_NODES] = "it lists more nodes than it has tasks for",
        [OF_SLURM] = "it is of a step that Slurm alone starts",
        [OF_OTHERS] = "its credential is not for this user and this node",
    };
    int status = -1;
    for (size_t i = 0; i < TRIES; i++) {
        status = status_of_reader(message, buffer, version, try_milliseconds[i]);
        if (status == -1 || !WIFSIGNALED(status) || WTERMSIG(status) != SIGALRM)
            break;
    }
    if (status == -1 || !WIFEXITED(status) || (size_t)WEXITSTATUS(status) >= sizeof(faults) / sizeof(faults[0]))
        return "it ends who reads it";
    return faults[WEXITSTATUS(status)];
}
