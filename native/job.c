#include "job.h"
#include "view.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define END_MILLISECONDS 5000

void job_init(struct job *job, uint32_t id) {
    *job = (struct job){.id = id, .outer = -1, .inner = -1, .processes = -1, .ipc = -1, .own_processes = -1};
}

static void lock_path(const struct job *job, char *path, size_t size) {
    snprintf(path, size, JOB_FOLDER "/%u", job->id);
}

/* Steps read the reason from the lock's file, since the extern step has nobody to tell it to. */
static void leave_reason(const struct jail *jail, const char *path) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0)
        return;
    if (write(file, jail->why, strlen(jail->why)) < 0)
        unlink(path);
    close(file);
}

static _Noreturn void become_keeper(const struct jail *jail, const struct job *job, const char *path, int channel) {
    char script[64];
    snprintf(script, sizeof(script), VIEW_SPOOL "/job%05u", job->id);
    /* slurmstepd's descriptors are not the job's to hold. */
    int said = dup2(channel, STDOUT_FILENO);
    if (said == STDOUT_FILENO && !syscall(SYS_close_range, STDOUT_FILENO + 1, ~0U, 0))
        execl(JOB_KEEPER, "job_keeper", jail->root, path, script, (char *)NULL);
    dprintf(said, "%s: %s", JOB_KEEPER, strerror(errno));
    _exit(1);
}

static int hear_keeper(struct jail *jail, int channel, int seconds) {
    struct pollfd wait = {.fd = channel, .events = POLLIN};
    char said[sizeof(jail->why)];
    int ready;
    do
        ready = poll(&wait, 1, seconds * 1000);
    while (ready < 0 && errno == EINTR);
    if (ready == 0)
        return jail_fail(jail, "the job's namespaces were not made within %d s", seconds);
    ssize_t length = ready < 0 ? -1 : read(channel, said, sizeof(said) - 1);
    if (length <= 0)
        return jail_fail(jail, "the keeper of the job's namespaces ended without a word");
    said[length] = '\0';
    return strcmp(said, JOB_KEPT) ? jail_fail(jail, "%s", said) : 0;
}

static int start_keeper(struct jail *jail, struct job *job, const char *path, int seconds) {
    int channel[2];
    if (pipe2(channel, O_CLOEXEC))
        return jail_fail_errno(jail, "make a pipe");
    job->own_processes = open("/proc/thread-self/ns/pid", O_RDONLY | O_CLOEXEC);
    if (job->own_processes < 0 || unshare(CLONE_NEWPID)) {
        close(channel[0]);
        close(channel[1]);
        return jail_fail_errno(jail, "make a process namespace (is SYS_ADMIN among the pod's capabilities?)");
    }
    job->keeper = fork();
    if (job->keeper == 0)
        become_keeper(jail, job, path, channel[1]);
    int started = job->keeper < 0 ? jail_fail_errno(jail, "start the keeper of the job's namespaces") : 0;
    close(channel[1]);
    int outcome = job_fork_outside(jail, job) || started ? -1 : hear_keeper(jail, channel[0], seconds);
    close(channel[0]);
    return outcome;
}

int job_keep(struct jail *jail, struct job *job, int seconds) {
    char path[sizeof(JOB_FOLDER) + 16];
    lock_path(job, path, sizeof(path));
    if (mkdir(JOB_FOLDER, 0700) && errno != EEXIST)
        return jail_fail_errno(jail, JOB_FOLDER);
    unlink(path);
    if (!jail_check_within(jail, seconds) && !start_keeper(jail, job, path, seconds))
        return 0;
    job_end(job);
    leave_reason(jail, path);
    return -1;
}

void job_end(struct job *job) {
    char path[sizeof(JOB_FOLDER) + 16];
    if (job->keeper <= 0)
        return;
    kill(job->keeper, SIGKILL);
    /* Not for ever: it may hang with the storage. */
    for (int i = 0; i < END_MILLISECONDS && waitpid(job->keeper, NULL, WNOHANG) == 0; i++)
        usleep(1000);
    job->keeper = 0;
    lock_path(job, path, sizeof(path));
    unlink(path);
}

/* The process that holds the lock, as this process namespace numbers it; 0 for none, -1 for no file. */
static pid_t holder(int file) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(file, F_GETLK, &lock))
        return -1;
    return lock.l_type == F_UNLCK ? 0 : lock.l_pid;
}

static int no_keeper(struct jail *jail, int file) {
    char reason[sizeof(jail->why)];
    ssize_t length = file < 0 ? 0 : pread(file, reason, sizeof(reason) - 1, 0);
    reason[length < 0 ? 0 : length] = '\0';
    return jail_fail(jail, "%s", length > 0 ? reason : "the job has no namespaces on this node: its extern step ended");
}

static int open_namespace(struct jail *jail, pid_t keeper, const char *name) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", keeper, name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        jail_fail(jail, "the job's namespace %s: %s", path, strerror(errno));
    return file;
}

static int find(struct jail *jail, struct job *job, int file) {
    char outer[16];
    pid_t keeper = file < 0 ? 0 : holder(file);
    if (keeper <= 0)
        return no_keeper(jail, file);
    snprintf(outer, sizeof(outer), "fd/%d", JOB_OUTER_DESCRIPTOR);
    if ((job->outer = open_namespace(jail, keeper, outer)) < 0 ||
        (job->inner = open_namespace(jail, keeper, "ns/mnt")) < 0 ||
        (job->processes = open_namespace(jail, keeper, "ns/pid")) < 0 ||
        (job->ipc = open_namespace(jail, keeper, "ns/ipc")) < 0 ||
        (job->own_processes = open("/proc/thread-self/ns/pid", O_RDONLY | O_CLOEXEC)) < 0)
        return -1;
    /* Still the same process: what was opened is not another's that got its number. */
    return holder(file) == keeper ? 0 : no_keeper(jail, file);
}

/* The node's own trials (jail_trial.c) ask the storage, which may hang; a step asks only what they found. */
static int heed_trials(struct jail *jail) {
    char sentence[sizeof(jail->why)];
    int file = open(JOB_BROKEN, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return errno == ENOENT ? 0 : jail_fail_errno(jail, JOB_BROKEN);
    ssize_t length = read(file, sentence, sizeof(sentence) - 1);
    close(file);
    sentence[length < 0 ? 0 : length] = '\0';
    return jail_fail(jail, "%s", sentence);
}

int job_join(struct jail *jail, struct job *job) {
    return heed_trials(jail) ? -1 : job_join_trial(jail, job);
}

int job_join_trial(struct jail *jail, struct job *job) {
    char path[sizeof(JOB_FOLDER) + 16];
    lock_path(job, path, sizeof(path));
    int file = open(path, O_RDWR | O_CLOEXEC);
    /* slurmstepd keeps the user's group after it has set a container up, and the kernel shows the keeper's namespaces
     * to its own user and group alone. */
    int group = setfsgid(getgid());
    int found = find(jail, job, file);
    setfsgid((gid_t)group);
    if (file >= 0)
        close(file);
    if (found)
        return -1;
    /* Threads of one process share the root folder, and a mount namespace is joined only by who shares it with nobody.
     */
    if (unshare(CLONE_FS) || setns(job->outer, CLONE_NEWNS))
        return jail_fail_errno(jail, "join the job's mounts (is SYS_CHROOT among the pod's capabilities?)");
    return jail_adopt_root(jail);
}

/* SYS_ADMIN leaves the effective set when the effective user changes from root, but not the permitted one. */
static int use_administrator(int on) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &header, sets))
        return -1;
    int had = (sets[0].effective & (1U << CAP_SYS_ADMIN)) != 0;
    sets[0].effective &= ~(1U << CAP_SYS_ADMIN);
    sets[0].effective |= on ? 1U << CAP_SYS_ADMIN : 0;
    return syscall(SYS_capset, &header, sets) ? -1 : had;
}

static int set_children(struct jail *jail, int processes) {
    int had = use_administrator(1);
    if (had < 0)
        return jail_fail_errno(jail, "use SYS_ADMIN");
    int failed = setns(processes, CLONE_NEWPID) ? jail_fail_errno(jail, "choose the process namespace of tasks") : 0;
    if (use_administrator(had) < 0)
        return jail_fail_errno(jail, "give SYS_ADMIN back");
    return failed;
}

int job_fork_inside(struct jail *jail, const struct job *job) {
    return set_children(jail, job->processes);
}

int job_fork_outside(struct jail *jail, const struct job *job) {
    return set_children(jail, job->own_processes);
}

static int born_inside(struct jail *jail, const struct job *job) {
    struct stat wanted, own;
    if (fstat(job->processes, &wanted) || stat("/proc/self/ns/pid", &own))
        return jail_fail_errno(jail, "the task's process namespace");
    if (wanted.st_dev != own.st_dev || wanted.st_ino != own.st_ino)
        return jail_fail(jail, "the task is not in the job's process namespace");
    return 0;
}

int job_enter_task(struct jail *jail, const struct job *job, const char *script) {
    int scripts = script ? view_pick_up(jail, script) : -1;
    if (script && scripts < 0)
        return -1;
    if (setns(job->inner, CLONE_NEWNS) || setns(job->ipc, CLONE_NEWIPC))
        return jail_fail_errno(jail, "join the job's namespaces");
    if (scripts >= 0 && view_place(jail, scripts, script))
        return -1;
    return born_inside(jail, job);
}
