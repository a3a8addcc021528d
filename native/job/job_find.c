#include "job_find.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void job_lock_path(const struct job *job, char *path, size_t size) {
    snprintf(path, size, JOB_FOLDER "/%u", job->id);
}

/* Returns the process that has locked a byte, by its number in this process namespace; 0 for none, -1 for no file. */
static pid_t holder(int file, off_t byte) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    if (fcntl(file, F_GETLK, &lock))
        return -1;
    return lock.l_type == F_UNLCK ? 0 : lock.l_pid;
}

static int no_init(struct jail *jail, int file) {
    char reason[sizeof(jail->why)];
    ssize_t length = file < 0 ? 0 : pread(file, reason, sizeof(reason) - 1, 0);
    reason[length < 0 ? 0 : length] = '\0';
    return jail_fail(jail, "%s", length > 0 ? reason : "the job has no namespaces on this node: its extern step ended");
}

static int open_namespace(struct jail *jail, pid_t init, const char *name) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", init, name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        jail_fail(jail, "the job's namespace %s: %s", path, strerror(errno));
    return file;
}

/* Returns job_init's process id once it has made the namespaces, or -1. It polls: no call waits for a lock with a
 * deadline. */
static pid_t await_init(struct jail *jail, int file, int seconds) {
    bool starts = false, lives = false, made = false;
    for (int waited = 0; waited < seconds * 1000; waited++) {
        /* In this order: the extern step gives up JOB_STARTS once job_init is born and the step has confined itself. */
        starts = file >= 0 && holder(file, JOB_STARTS) > 0;
        pid_t init = file < 0 ? 0 : holder(file, JOB_LIVES);
        if (init < 0 || (init == 0 && !starts))
            return no_init(jail, file);
        lives = init > 0;
        made = lives && holder(file, JOB_MAKES) == 0;
        if (made && !starts)
            return init;
        usleep(1000);
    }
    if (made || !lives)
        return jail_fail(jail, "the job's extern step was not confined within %d s", seconds);
    return jail_fail(jail, "%s did not answer within %d s: the shared storage hangs", jail->root, seconds);
}

static void close_namespaces(struct job *job) {
    int *const all[] = {&job->outer, &job->inner, &job->processes, &job->ipc, &job->own_processes};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (*all[i] >= 0)
            close(*all[i]);
        *all[i] = -1;
    }
}

static int open_namespaces(struct jail *jail, struct job *job, pid_t init) {
    char outer[16];
    snprintf(outer, sizeof(outer), "fd/%d", JOB_OUTER_DESCRIPTOR);
    if ((job->outer = open_namespace(jail, init, outer)) < 0 ||
        (job->inner = open_namespace(jail, init, "ns/mnt")) < 0 ||
        (job->processes = open_namespace(jail, init, "ns/pid")) < 0 ||
        (job->ipc = open_namespace(jail, init, "ns/ipc")) < 0)
        return -1;
    if ((job->own_processes = open("/proc/thread-self/ns/pid", O_RDONLY | O_CLOEXEC)) < 0)
        return jail_fail_errno(jail, "/proc/thread-self/ns/pid");
    return 0;
}

int job_find(struct jail *jail, struct job *job, int file, int seconds) {
    pid_t init = await_init(jail, file, seconds);
    if (init < 0)
        return -1;
    /* Still the same process: no other one has got its number while its namespaces were opened. */
    if (!open_namespaces(jail, job, init) && (holder(file, JOB_LIVES) == init || !no_init(jail, file)))
        return 0;
    close_namespaces(job);
    return -1;
}

int job_await(struct jail *jail, struct job *job, int seconds) {
    char path[sizeof(JOB_FOLDER) + 16];
    job_lock_path(job, path, sizeof(path));
    job_await_start(job);
    int file = open(path, O_RDWR | O_CLOEXEC);
    pid_t init = await_init(jail, file, seconds);
    int failed = init < 0 || (holder(file, JOB_LIVES) != init && no_init(jail, file));
    if (file >= 0)
        close(file);
    return failed ? -1 : 0;
}

/* Asks for the result of the node's own probes (jail_probe.c). The probes touch the storage, which may hang; a step
 * does not. */
int job_heed_probes(struct jail *jail) {
    char sentence[sizeof(jail->why)];
    int file = open(JOB_BROKEN, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return errno == ENOENT ? 0 : jail_fail_errno(jail, JOB_BROKEN);
    ssize_t length = read(file, sentence, sizeof(sentence) - 1);
    close(file);
    sentence[length < 0 ? 0 : length] = '\0';
    return jail_fail(jail, "%s", sentence);
}
