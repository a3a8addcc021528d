/* Makes and ends a job's namespaces as the extern step does. Runs a task in them as a step does. So the node knows
 * in advance whether a job could run. A repaired node takes no job before this succeeds. On a login node it enters the
 * jail as a session does.
 *
 *   jail_probe ROOT [login]
 *
 * Prints nothing and ends with 0, or prints why not. After printing it waits for a child that hangs with the storage.
 * So probes never pile up, if the caller starts none while this one lives. */
#include "confine.h"
#include "jail.h"
#include "job.h"
#include "login.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PROBE_SECONDS
#define PROBE_SECONDS 10
#endif
/* The exit status of ld.so(8) if a library is missing: damaged storage may still have the program itself. */
#define NOT_LOADED 127
/* nobody, which owns nothing: root of the jail may have changed the shell. */
#define PROBE_USER 65534
#define PROBE_MEMORY (64 << 20)
#define RAN "ran"

/* The first sentence counts: later a parent adds how its child ended. */
static _Noreturn void say(int channel, const char *sentence) {
    dprintf(channel, "%s\n", sentence);
    _exit(EXIT_FAILURE);
}

/* No job's cgroup limits the task. So its shell, which users may have changed, gets no child, no file and little
 * memory. */
static int limit(struct jail *jail) {
    static const struct {
        int resource;
        rlim_t most;
    } limits[] = {
        {RLIMIT_NPROC, 0},           {RLIMIT_FSIZE, 0},           {RLIMIT_CORE, 0},
        {RLIMIT_CPU, PROBE_SECONDS}, {RLIMIT_DATA, PROBE_MEMORY},
    };
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        struct rlimit both = {.rlim_cur = limits[i].most, .rlim_max = limits[i].most};
        if (setrlimit(limits[i].resource, &both))
            return jail_fail_errno(jail, "limit a test step");
    }
    /* A library of the users' ld.so.preload may write a file: its write fails, instead of killing the probe. */
    return signal(SIGXFSZ, SIG_IGN) == SIG_ERR ? jail_fail_errno(jail, "limit a test step") : 0;
}

static int become_nobody(struct jail *jail) {
    if (setgroups(0, NULL) || setresgid(PROBE_USER, PROBE_USER, PROBE_USER) ||
        setresuid(PROBE_USER, PROBE_USER, PROBE_USER))
        return jail_fail_errno(jail, "run a test step as an ordinary user");
    return 0;
}

static int mute(struct jail *jail) {
    if (!freopen("/dev/null", "r", stdin) || !freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
        return jail_fail_errno(jail, "/dev/null in the jail");
    return 0;
}

static _Noreturn void task(struct jail *jail, const struct job *job, int channel) {
    char *const command[] = {"sh", "-c", ":", NULL}, *const nothing[] = {NULL};
    /* The order of step_become_inner. The limits come last, since a change of the user counts that user's processes. */
    if (!jail_verify(jail) && !job_enter_task(jail, job, NULL) && !jail_verify(jail) && !confine(jail) && !mute(jail) &&
        !become_nobody(jail) && !limit(jail)) {
        execve("/bin/sh", command, nothing);
        jail_fail_errno(jail, "a test step could not start the jail's /bin/sh");
    }
    say(channel, jail->why);
}

/* Returns the cause of a signal: pages of a running program that are not in memory come from the storage. */
static const char *cause(int number) {
    return number == SIGBUS ? " (SIGBUS): the shared storage does not give what is in the file" : "";
}

static _Noreturn void step(const char *root, int channel) {
    struct jail jail;
    struct job job;
    int status = 0;
    jail_init(&jail, root);
    job_prepare(&job, PROBE_JOB);
    jail_preload_nss();
    jail_preload_unwinder();
    jail_look_users_up_in_files();
    if (job_join_probe(&jail, &job, PROBE_SECONDS) || job_fork_inside(&jail, &job))
        say(channel, jail.why);
    pid_t child = fork();
    if (child == 0)
        task(&jail, &job, channel);
    if (child < 0 || waitpid(child, &status, 0) != child)
        jail_fail_errno(&jail, "start a test step");
    else if (WIFSIGNALED(status))
        jail_fail(&jail, "a test step's /bin/sh was ended by signal %d%s", WTERMSIG(status), cause(WTERMSIG(status)));
    else if (WEXITSTATUS(status))
        jail_fail(&jail, "a test step's /bin/sh ended with %d%s", WEXITSTATUS(status),
                  WEXITSTATUS(status) == NOT_LOADED ? ": a library that it loads is missing" : "");
    else
        say(channel, RAN);
    say(channel, jail.why);
}

static int hear(struct jail *jail, int channel) {
    struct pollfd wait = {.fd = channel, .events = POLLIN};
    char said[sizeof(jail->why)];
    if (poll(&wait, 1, PROBE_SECONDS * 1000) == 0)
        return jail_fail(jail, "a test step did not end within %d s", PROBE_SECONDS);
    ssize_t length = read(channel, said, sizeof(said) - 1);
    if (length <= 0)
        return jail_fail(jail, "a test step ended without a word");
    said[length] = '\0';
    said[strcspn(said, "\n")] = '\0';
    return strcmp(said, RAN) ? jail_fail(jail, "%s", said) : 0;
}

static int run_step(struct jail *jail) {
    int channel[2];
    if (pipe2(channel, O_CLOEXEC))
        return jail_fail_errno(jail, "make a pipe");
    pid_t child = fork();
    if (child == 0)
        step(jail->root, channel[1]);
    int failed = child < 0 ? jail_fail_errno(jail, "start a test step") : 0;
    close(channel[1]);
    failed = failed || hear(jail, channel[0]);
    close(channel[0]);
    return failed;
}

int main(int argc, char *argv[]) {
    struct jail jail;
    struct job job;
    bool login = argc > 2 && strcmp(argv[2], "login") == 0;
    jail_init(&jail, argc > 1 ? argv[1] : JAIL_DEFAULT_ROOT);
    job_prepare(&job, PROBE_JOB);
    int failed =
        login ? login_enter(&jail) : job_keep(&jail, &job) || job_await(&jail, &job, PROBE_SECONDS) || run_step(&jail);
    if (failed)
        puts(jail.why);
    /* Before the wait for a child that hangs. */
    fflush(stdout);
    job_end(&job);
    fclose(stdout);
    while (wait(NULL) > 0)
        ;
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
