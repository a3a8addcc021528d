/* Runs first in slurmstepd, and ends it unless the jail plugin is sure to be loaded.
 *
 * A library that the image's build links to slurmstepd (images/slurm/build_prefix.py). Without it no slurmstepd starts
 * at all. A library costs a step no second program.
 *
 * Slurm can silently run a step without the plugin in two ways. One is an `optional` line whose .so is missing. The
 * other is a PlugStackConfig line with a relative path, which Slurm finds nowhere. This library refuses both. The
 * plugin checks that the tree is complete, since only the plugin can tell the user.
 *
 * slurmd talks to slurmstepd over stdin and stdout, so both are left alone until a refusal. */
#include "stepd_guard.h"
#include "container_log.h"
#include "contract.h"
#include "stepd_open.h"
#include "stepd_view.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define DEEPEST_INCLUDE 8
/* slurmd sends all of a step at once. */
#define STEP_SECONDS 20
/* slurm_errno.h; srun prints them in words. */
#define ESLURM_PLUGIN_NOT_LOADED 8004
#define ESLURM_PLUGIN_BAD_VERSION 8010

stepd_execve *stepd_guard_execve;
bool stepd_guard_epilog;
static timer_t end_timer;
static bool waits_for_step;

/* Comes before the C library's execve for slurmstepd and the libraries that it loads. */
int execve(const char *path, char *const argv[], char *const envp[]) {
    if (stepd_guard_execve)
        return stepd_guard_execve(path, argv, envp);
    return (int)syscall(SYS_execve, path, argv, envp);
}

struct guard {
    int code;
    char folder[PATH_MAX];
    char why[PATH_MAX + 256];
};

__attribute__((format(printf, 2, 3))) static int refuse(struct guard *guard, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(guard->why, sizeof(guard->why), format, arguments);
    va_end(arguments);
    return -1;
}

/* Reads one logical line: without comment, with continuation lines joined. Returns false at the end. The caller frees
 * *line. */
static bool next_line(FILE *file, char **line, size_t *size) {
    char *part = NULL;
    size_t part_size = 0, length = 0;
    bool any = false, more = true;
    while (more && !feof(file) && !ferror(file) && getline(&part, &part_size, file) >= 0) {
        any = true;
        part[strcspn(part, "#\n")] = '\0';
        size_t part_length = strlen(part);
        more = part_length && part[part_length - 1] == '\\';
        if (more)
            part[--part_length] = '\0';
        if (length + part_length + 1 > *size) {
            char *larger = realloc(*line, length + part_length + 1);
            if (!larger) {
                any = false;
                break;
            }
            *line = larger;
            *size = length + part_length + 1;
        }
        memcpy(*line + length, part, part_length + 1);
        length += part_length;
    }
    free(part);
    return any;
}

/* Recursion ends at DEEPEST_INCLUDE. NOLINTNEXTLINE(misc-no-recursion) */
static int check_slurm_conf(struct guard *guard, const char *path, int depth) {
    char *line = NULL;
    size_t size = 0;
    int outcome = 0;
    if (depth > DEEPEST_INCLUDE)
        return refuse(guard, "%s: includes are nested too deeply", path);
    FILE *file = fopen(path, "re");
    if (!file)
        return refuse(guard, "%s: %s", path, strerror(errno));
    while (!outcome && next_line(file, &line, &size)) {
        char *text = line + strspn(line, " \t");
        if (strcasestr(text, "PlugStackConfig")) {
            outcome =
                refuse(guard, "%s has a PlugStackConfig line: remove it, Slurm finds plugstack.conf by itself", path);
        } else if (!strncasecmp(text, "TaskEpilog", strlen("TaskEpilog"))) {
            stepd_guard_epilog = true;
        } else if (!strncasecmp(text, "include", 7) && isspace((unsigned char)text[7])) {
            char next[PATH_MAX];
            char *name = text + 7 + strspn(text + 7, " \t");
            name[strcspn(name, " \t\r")] = '\0';
            int length = name[0] == '/' ? snprintf(next, sizeof(next), "%s", name)
                                        : snprintf(next, sizeof(next), "%s/%s", guard->folder, name);
            outcome = length < 0 || (size_t)length >= sizeof(next) ? refuse(guard, "%s: include path too long", path)
                                                                   : check_slurm_conf(guard, next, depth + 1);
        }
    }
    free(line);
    fclose(file);
    return outcome;
}

static bool requires_plugin(char *line) {
    char *rest = NULL;
    char *word = strtok_r(line, " \t\r", &rest);
    if (!word || strcmp(word, "required") != 0)
        return false;
    word = strtok_r(NULL, " \t\r", &rest);
    return word && !strcmp(word, SPANK_JAIL);
}

static int check_plugstack(struct guard *guard) {
    char path[PATH_MAX + 32];
    char *line = NULL;
    size_t size = 0;
    bool has_line = false;
    snprintf(path, sizeof(path), "%s/plugstack.conf", guard->folder);
    FILE *file = fopen(path, "re");
    if (!file)
        return refuse(guard, "%s: %s", path, strerror(errno));
    while (!has_line && next_line(file, &line, &size))
        has_line = requires_plugin(line);
    free(line);
    fclose(file);
    return has_line ? 0 : refuse(guard, "%s has no line \"required %s\"", path, SPANK_JAIL);
}

static int check_version(struct guard *guard) {
    char sentence[256];
    int file = open(GUARD_REFUSED, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return errno == ENOENT ? 0 : refuse(guard, "%s: %s", GUARD_REFUSED, strerror(errno));
    ssize_t length = read(file, sentence, sizeof(sentence) - 1);
    close(file);
    sentence[length < 0 ? 0 : length] = '\0';
    guard->code = ESLURM_PLUGIN_BAD_VERSION;
    return refuse(guard, "%s", sentence);
}

static int check(struct guard *guard) {
    const char *configuration = getenv("SLURM_CONF");
    if (!configuration || !configuration[0])
        configuration = SLURM_CONFIGURATION;
    int length = snprintf(guard->folder, sizeof(guard->folder), "%s", configuration);
    char *slash = strrchr(guard->folder, '/');
    if (length < 0 || (size_t)length >= sizeof(guard->folder) || !slash || configuration[0] != '/')
        return refuse(guard, "SLURM_CONF=%.200s is no absolute path", configuration);
    *slash = '\0';
    if (check_slurm_conf(guard, configuration, 0) || check_plugstack(guard))
        return -1;
    if (access(SPANK_JAIL, R_OK))
        return refuse(guard, "%s: %s", SPANK_JAIL, strerror(errno));
    return check_version(guard);
}

static void tell_the_log(const char *why) {
    container_log("slurmstepd: error: jail: refusing to start a step that would run outside the jail: %s\n", why);
}

/* slurmd writes the step's description, then waits for a return code. Sends it one, so that it need not guess. */
static void answer_slurmd(int code) {
    char ignored[4096];
    if (write(STDOUT_FILENO, &code, sizeof(code)) != sizeof(code))
        return;
    while (read(STDIN_FILENO, ignored, sizeof(ignored)) > 0)
        ;
}

/* A process may look into another one with the same capabilities: into its memory, and into its files by
 * /proc/PID/root. slurmstepd gives up one that process 1 and slurmd keep: nobody can then have it open a path through
 * theirs. This runs before slurmstepd has another thread, since each thread has capabilities of its own. */
static int give_up_sight(struct guard *guard) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
    const unsigned given_up = 1U << CAP_NET_BIND_SERVICE | 1U << CAP_SYS_PTRACE;
    /* A program that root executes gets the whole bounding set: job_init would have more rights than the steps that
     * look for it. */
    if (prctl(PR_CAPBSET_DROP, CAP_NET_BIND_SERVICE, 0, 0, 0) || prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE, 0, 0, 0))
        return refuse(guard, "drop from the bounding set (is SETPCAP among the pod's capabilities?): %s",
                      strerror(errno));
    if (syscall(SYS_capget, &header, sets))
        return refuse(guard, "read the capability sets: %s", strerror(errno));
    sets[0].permitted &= ~given_up;
    sets[0].effective &= ~given_up;
    sets[0].inheritable &= ~given_up;
    if (syscall(SYS_capset, &header, sets))
        return refuse(guard, "give up capabilities: %s", strerror(errno));
    return 0;
}

/* slurmd may stop in the middle of a step's description, and then wait for an answer. It does so for an MPI plugin that
 * it lacks, and any client can ask for one (mpi_conf_send_stepd, 26.05). Both would wait for ever, and the job's node
 * with them. When slurmstepd ends, slurmd tells its client. Not by alarm(2): Slurm blocks that signal. */
static int limit_wait(struct guard *guard) {
    struct sigevent end = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec when = {.it_value.tv_sec = STEP_SECONDS};
    if (timer_create(CLOCK_MONOTONIC, &end, &end_timer) || timer_settime(end_timer, 0, &when, NULL))
        return refuse(guard, "limit the wait for a step: %s", strerror(errno));
    waits_for_step = true;
    return 0;
}

/* slurmstepd may need longer for the rest on a busy node. Nobody would tell srun of slurmstepd's end then. */
void stepd_guard_has_step(void) {
    if (waits_for_step)
        timer_delete(end_timer);
    waits_for_step = false;
}

/* This, too, comes before the second thread: later a thread could take a namespace only for itself. */
static int narrow_view(struct guard *guard) {
    char why[256];
    return stepd_view_make(why, sizeof(why)) ? refuse(guard, "narrow slurmstepd's view of the pod: %s", why) : 0;
}

/* The loader gives a library's constructor what it gives main. */
__attribute__((constructor)) static void stand_guard(int argc, char *argv[]) {
    struct guard guard = {.code = ESLURM_PLUGIN_NOT_LOADED};
    (void)argv;
    stepd_open_init();
    stepd_unwinder_init();
    /* slurmd asks for a step without arguments; getenv, infinity and spank run no user code. */
    if (argc == 1 && (check(&guard) || narrow_view(&guard) || give_up_sight(&guard) || limit_wait(&guard))) {
        tell_the_log(guard.why);
        answer_slurmd(guard.code);
        _exit(EXIT_FAILURE);
    }
    stepd_guard_reduces = argc == 1;
}
