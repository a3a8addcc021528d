/* A job without Slurm. It keeps its namespaces as the extern step does, and joins them as slurmstepd does. It runs a
 * shell line as its task. Each further argument is one more step, the word "ordinary" before it runs it as an ordinary
 * user; the word "census" tells what this process and job_init hold. The word "scarce" tells what a step holds after it
 * failed to join, since it may open too few descriptors. After the word "early", which comes first, the first step
 * comes before the namespaces are made. After "confines" or "fails to confine" this process is not confined until the
 * words "may begin"; "watch" is a step that fails if it could enter between them and job_init's end. Usage: job_probe
 * ROOT [early | confines | fails to confine] LINE... */
#include "confine.h"
#include "job.h"
#include "job_find.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEADLINE_SECONDS 3
#define BRIEF_SECONDS 1 /* for a step that waits in vain */
#define JOB 7
#define ORDINARY 12345

static int outcome_of(pid_t child) {
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static _Noreturn void task(struct jail *jail, const struct job *job, uid_t user, const char *line) {
    if (jail_verify(jail) || job_enter_task(jail, job, NULL) || confine(jail)) {
        printf("refused: %s\n", jail->why);
        fflush(stdout);
        _exit(99);
    }
    if (user && (setgroups(0, NULL) || setgid(user) || setuid(user)))
        _exit(98);
    execl("/bin/sh", "sh", "-c", line, (char *)NULL);
    _exit(97);
}

static int deadline = DEADLINE_SECONDS;

static _Noreturn void step(const char *root, uid_t user, const char *line) {
    struct jail jail;
    struct job job;
    jail_init(&jail, root);
    job_prepare(&job, JOB);
    /* slurmstepd forks tasks with its effective user set to the job's. */
    if (job_join(&jail, &job, deadline) || (user && seteuid(user)) || job_fork_inside(&jail, &job)) {
        printf("refused: %s\n", jail.why);
        fflush(stdout);
        _exit(99);
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (user && seteuid(0))
            _exit(96);
        task(&jail, &job, user, line);
    }
    int outcome = outcome_of(child);
    _exit(job_fork_outside(&jail, &job) ? 95 : outcome);
}

static int entries(const char *path) {
    int count = 0;
    DIR *folder = opendir(path);
    if (!folder)
        return -1;
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static int lines(const char *path) {
    int count = 0, letter;
    FILE *file = fopen(path, "r");
    if (!file)
        return -1;
    while ((letter = fgetc(file)) != EOF)
        count += letter == '\n';
    fclose(file);
    return count;
}

/* Mounts of job_init alone: what the machine has mounted comes and goes by itself. */
static void census(pid_t init) {
    char descriptors[64], mounts[64];
    snprintf(descriptors, sizeof(descriptors), "/proc/%d/fd", init);
    snprintf(mounts, sizeof(mounts), "/proc/%d/mountinfo", init);
    printf("descriptors %d, job_init's %d; mounts %d\n", entries("/proc/self/fd"), entries(descriptors), lines(mounts));
}

/* The lock's file and two namespaces still open; the third does not. */
static _Noreturn void scarce(const char *root) {
    struct jail jail;
    struct job job;
    int next = dup(STDIN_FILENO), before = entries("/proc/self/fd") - 1, refused = 0;
    struct rlimit few = {.rlim_cur = (rlim_t)next + 3, .rlim_max = RLIM_INFINITY}, many;
    close(next);
    getrlimit(RLIMIT_NOFILE, &many);
    few.rlim_max = many.rlim_max;
    jail_init(&jail, root);
    job_prepare(&job, JOB);
    setrlimit(RLIMIT_NOFILE, &few);
    for (int i = 0; i < 20; i++)
        refused += job_join(&jail, &job, DEADLINE_SECONDS) != 0;
    setrlimit(RLIMIT_NOFILE, &many);
    printf("refused %d times: %d descriptors more; %s\n", refused, entries("/proc/self/fd") - before, jail.why);
    fflush(stdout);
    _exit(EXIT_SUCCESS);
}

static bool is_locked(int file, off_t byte) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return !fcntl(file, F_GETLK, &lock) && lock.l_type != F_UNLCK;
}

/* Looks without a pause, from job_init's exec until its end. As a step does, it asks for JOB_STARTS first. */
static _Noreturn void watch(const struct job *job, int told) {
    char path[PATH_MAX];
    bool starts, lives;
    job_lock_path(job, path, sizeof(path));
    int file = open(path, O_RDWR | O_CLOEXEC);
    close(told);
    while (is_locked(file, JOB_STARTS) && !is_locked(file, JOB_LIVES))
        ;
    do {
        starts = is_locked(file, JOB_STARTS);
        lives = is_locked(file, JOB_LIVES);
    } while (starts && lives);
    _exit(lives ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* Returns once the watcher looks. */
static pid_t start_watching(const struct job *job) {
    int told[2];
    char nothing;
    if (pipe(told))
        return -1;
    pid_t watcher = fork();
    if (watcher == 0) {
        close(told[0]);
        watch(job, told[1]);
    }
    close(told[1]);
    if (read(told[0], &nothing, 1))
        watcher = -1;
    close(told[0]);
    return watcher;
}

static int confines(struct jail *jail) {
    (void)jail;
    return 0;
}

static int fails_to_confine(struct jail *jail) {
    return jail_fail(jail, "a thread keeps capabilities");
}

/* Before job_keep: what this process does between the birth of job_init and the first step. */
static void choose_confinement(struct job *job, const char *word) {
    if (!strcmp(word, "confines"))
        job->confine = confines;
    else if (!strcmp(word, "fails to confine"))
        job->confine = fails_to_confine;
    else
        return;
    deadline = BRIEF_SECONDS;
}

int main(int argc, char *argv[]) {
    struct jail jail;
    struct job job;
    uid_t user = 0;
    pid_t watcher = 0;
    if (argc < 2)
        return EXIT_FAILURE;
    jail_init(&jail, argv[1]);
    job_prepare(&job, JOB);
    choose_confinement(&job, argc > 2 ? argv[2] : "");
    bool early = argc > 2 && (job.confine || !strcmp(argv[2], "early"));
    if (job_keep(&jail, &job) || (!early && job_await(&jail, &job, DEADLINE_SECONDS)))
        printf("not kept: %s\n", jail.why);
    for (int i = early ? 3 : 2; i < argc; i++) {
        if (!strcmp(argv[i], "ordinary")) {
            user = ORDINARY;
            continue;
        }
        if (!strcmp(argv[i], "may begin")) {
            job_may_begin(&job);
            continue;
        }
        if (!strcmp(argv[i], "watch")) {
            watcher = start_watching(&job);
            continue;
        }
        if (!strcmp(argv[i], "census")) {
            census(job.init);
            continue;
        }
        fflush(stdout);
        pid_t child = fork();
        if (child == 0 && !strcmp(argv[i], "scarce"))
            scarce(argv[1]);
        if (child == 0)
            step(argv[1], user, argv[i]);
        printf("-> %d\n", outcome_of(child));
        user = 0;
    }
    job_end(&job);
    if (watcher)
        printf("-> %d\n", outcome_of(watcher));
    return EXIT_SUCCESS;
}
