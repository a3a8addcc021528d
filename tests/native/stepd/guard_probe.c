/* Stands for slurmstepd: says that it runs, with its arguments, and gives back what it is told. Files that PROBE_SHOWS
 * names, separated by colons, it reads, and says how much it got; folders of PROBE_MAKES it makes. With PROBE_THREADS
 * it says which capabilities its first thread has, and then another one; with PROBE_VIEW its mount namespace, with
 * PROBE_TIMERS whether it has a timer, before and after its first thread. `prepare` makes the view for all, as
 * slurmd_start does. `slurmd` does so, too, says "ready", and then looks before each slurmstepd, whose view it says; it
 * starts one for each line that it reads. `open`, `write` and `mkdir` with a path and a user's number do that, and
 * nothing else; `write` makes a file or empties it. */
#include "stepd_view.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void show(char *paths) {
    char *rest = NULL, content[256];
    for (const char *path = strtok_r(paths, ":", &rest); path; path = strtok_r(NULL, ":", &rest)) {
        FILE *file = fopen(path, "re");
        if (file)
            printf("%zu\n", fread(content, 1, sizeof(content), file));
        else
            puts(strerror(errno));
        if (file)
            fclose(file);
    }
}

static void make(char *paths) {
    char *rest = NULL;
    for (const char *path = strtok_r(paths, ":", &rest); path; path = strtok_r(NULL, ":", &rest))
        puts(mkdir(path, 0700) ? strerror(errno) : "done");
}

static void *rights(void *unused) {
    char line[256];
    FILE *file = fopen("/proc/thread-self/status", "re");
    while (file && fgets(line, sizeof(line), file))
        if (!strncmp(line, "CapPrm:", 7) || !strncmp(line, "CapEff:", 7))
            fputs(line, stdout);
    if (file)
        fclose(file);
    return unused;
}

static void show_threads(void) {
    pthread_t thread;
    rights(NULL);
    if (pthread_create(&thread, NULL, rights, NULL) || pthread_join(thread, NULL))
        puts("no thread");
}

static void show_timer(void) {
    FILE *timers = fopen("/proc/self/timers", "re");
    puts(timers && fgetc(timers) != EOF ? "a timer" : "no timer");
    if (timers)
        fclose(timers);
}

static void *nothing(void *unused) {
    return unused;
}

static void show_timers(void) {
    pthread_t thread;
    show_timer();
    if (pthread_create(&thread, NULL, nothing, NULL) || pthread_join(thread, NULL))
        puts("no thread");
    show_timer();
}

static int outcome(int failed) {
    puts(failed ? strerror(errno) : "done");
    return 0;
}

/* The guard looks who calls: this is the program's own text. */
static int act(const char *what, const char *path, uid_t user) {
    if (user && (setgid(user) || setuid(user)))
        return 1;
    if (!strcmp(what, "open"))
        return outcome(open(path, O_RDONLY | O_CLOEXEC) < 0);
    if (!strcmp(what, "write"))
        return outcome(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) < 0);
    return outcome(mkdir(path, 0700));
}

static void show_view(void) {
    char view[64] = "";
    if (readlink("/proc/self/ns/mnt", view, sizeof(view) - 1) > 0)
        puts(view);
}

static int prepare(void) {
    char why[256];
    return stepd_view_prepare(why, sizeof(why)) ? fprintf(stderr, "%s\n", why) : 0;
}

/* Forks twice, as slurmd does. */
static void start_stepd(const char *program) {
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pid_t child = fork();
    if (child) {
        close(nothing);
        waitpid(child, NULL, 0);
        return;
    }
    pid_t stepd = fork();
    if (stepd) {
        waitpid(stepd, NULL, 0);
        _exit(0);
    }
    if (nothing >= 0 && dup2(nothing, STDIN_FILENO) == STDIN_FILENO)
        execl(program, program, NULL);
    _exit(127);
}

static int play_slurmd(const char *program) {
    char line[8];
    setenv("PROBE_VIEW", "1", 1);
    if (prepare())
        return 1;
    stepd_view_watch();
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin))
        start_stepd(program);
    return 0;
}

int main(int argc, char *argv[]) {
    char *shown = getenv("PROBE_SHOWS"), *made = getenv("PROBE_MAKES");
    int byte;
    if (argc == 4)
        return act(argv[1], argv[2], (uid_t)strtoul(argv[3], NULL, 10));
    if (argc == 2 && !strcmp(argv[1], "prepare"))
        return prepare();
    if (argc == 2 && !strcmp(argv[1], "slurmd"))
        return play_slurmd(argv[0]);
    fputs("the real slurmstepd ran", stdout);
    for (int i = 1; i < argc; i++)
        printf(" %s", argv[i]);
    putchar('\n');
    if (shown)
        show(shown);
    if (made)
        make(made);
    if (getenv("PROBE_VIEW"))
        show_view();
    if (getenv("PROBE_THREADS"))
        show_threads();
    if (getenv("PROBE_TIMERS"))
        show_timers();
    while ((byte = getchar()) != EOF)
        putchar(byte);
    return 0;
}
