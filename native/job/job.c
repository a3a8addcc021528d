#include "job.h"
#include "job_find.h"
#include "job_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define END_MILLISECONDS 5000

void job_prepare(struct job *job, uint32_t id) {
    *job = (struct job){.id = id, .outer = -1, .inner = -1, .processes = -1, .ipc = -1, .own_processes = -1};
}

/* Writes the reason to the lock's file, where steps read it: the extern step has no user to tell. */
static void leave_reason(const struct jail *jail, const char *path) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0)
        return;
    if (write(file, jail->why, strlen(jail->why)) < 0)
        unlink(path);
    close(file);
}

void job_leave_refusal(const struct jail *jail) {
    static const char aside[] = JOB_REFUSED ".new";
    size_t length = strlen(jail->why);
    int file =
        jail->state == JAIL_OUTSIDE ? open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
    if (file < 0)
        return;
    bool whole = write(file, jail->why, length) == (ssize_t)length;
    close(file);
    if (!whole || rename(aside, JOB_REFUSED))
        unlink(aside);
}

/* Read by job_init's process until its exec, while its parent goes on. A slurmstepd has one extern step at most. */
static struct start {
    const char *root;
    char script[64];
    int lock;
    int pod_group;      /* descriptor of the file that takes job_init into the pod's group, or -1 */
    const char *failed; /* the file of the error */
    int error;
    int go;       /* counts once job_init may begin */
    pid_t shares; /* the kernel sets it to 0, and wakes the thread that waits, at job_init's exec or end */
    _Alignas(16) char stack[16384];
} start;

/* On cgroup v2 slurmstepd lives in its step's group. At the job's end it waits for all other processes there, so
 * job_init must leave that group. Version 1 has no such leaf, and slurmstepd is in no group that it waits for. */
static int open_pod_group(struct jail *jail) {
    start.pod_group = open(JOB_INIT_GROUP, O_WRONLY | O_CLOEXEC);
    return start.pod_group < 0 && errno != ENOENT ? jail_fail_errno(jail, JOB_INIT_GROUP) : 0;
}

static int join_pod_group(void) {
    start.failed = JOB_INIT_GROUP;
    if (start.pod_group >= 0 && syscall(SYS_write, start.pod_group, "0", 1) != 1)
        return -1;
    start.failed = JOB_INIT;
    return 0;
}

/* Shares the parent's memory until exec, and runs beside it, but has none of its descriptors. It shares errno, too: no
 * call fails here while all is well, and none makes glibc mark the parent's thread as cancellable. The parent may
 * change its environment meanwhile: job_init gets none. No address sanitizer: its frames would leave marks in the
 * caller's stack. */
__attribute__((no_sanitize("address"))) static int become_init(void *unused) {
    (void)unused;
    char *const arguments[] = {"job_init", (char *)start.root, start.script, NULL}, *const environment[] = {NULL};
    struct flock ours = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = JOB_LIVES, .l_len = 2};
    uint64_t times;
    /* The lock comes last: closing any descriptor of its file would give it up. job_init asks again to end with its
     * parent, but the parent may end before. */
    if (!prctl(PR_SET_PDEATHSIG, SIGKILL) && !join_pod_group() &&
        syscall(SYS_read, start.go, &times, sizeof(times)) == sizeof(times) &&
        !syscall(SYS_close_range, 0, JOB_LOCK_DESCRIPTOR, 0) &&
        syscall(SYS_fcntl, start.lock, F_DUPFD, JOB_LOCK_DESCRIPTOR) == JOB_LOCK_DESCRIPTOR &&
        !syscall(SYS_close_range, JOB_LOCK_DESCRIPTOR + 1, ~0U, 0) &&
        !syscall(SYS_fcntl, JOB_LOCK_DESCRIPTOR, F_SETLK, &ours))
        execve(JOB_INIT, arguments, environment);
    start.error = errno;
    _exit(EXIT_FAILURE);
}

/* Opens the lock's file under a number other than job_init's, where it must not be closed at exec. */
static int open_lock(struct jail *jail, const char *path) {
    struct flock starts = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = JOB_STARTS, .l_len = 1};
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int lock = file < 0 ? -1 : fcntl(file, F_DUPFD_CLOEXEC, JOB_LOCK_DESCRIPTOR + 1);
    if (file >= 0)
        close(file);
    if (lock >= 0 && !fcntl(lock, F_SETLK, &starts))
        return lock;
    jail_fail_errno(jail, path);
    if (lock >= 0)
        close(lock);
    return -1;
}

/* Returns when job_init is born, and not at its exec: slurmd and the user wait for the extern step meanwhile. kubelet
 * looks at each group that the step makes, and on two cores job_init would be a third to compute. So it begins when the
 * extern step has answered (job_may_begin). slurmstepd then goes on to enter groups and users in which job_init must
 * not be born. Without fork: copying slurmstepd's page tables takes longer than everything job_init does until its
 * exec. */
static int bear_init(struct jail *jail, struct job *job) {
    const int flags = CLONE_VM | CLONE_NEWPID | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;
    sigset_t all;
    start.root = jail->root;
    start.lock = job->lock;
    start.error = 0;
    snprintf(start.script, sizeof(start.script), SLURMD_SPOOL "/job%05u", job->id);
    if ((start.go = eventfd(!job->confine, EFD_CLOEXEC)) < 0)
        return jail_fail_errno(jail, "make an event");
    if (open_pod_group(jail))
        return -1;
    /* A handler would run in memory that job_init shares until its exec. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &job->mask);
    job->init = clone(become_init, start.stack + sizeof(start.stack), flags, NULL, &start.shares, NULL, &start.shares);
    int error = errno;
    pthread_sigmask(SIG_SETMASK, &job->mask, NULL);
    if (start.pod_group >= 0)
        close(start.pod_group);
    if (job->init > 0)
        return 0;
    job->init = 0;
    errno = error;
    return jail_fail_errno(jail, "make a process namespace (is SYS_ADMIN among the pod's capabilities?)");
}

static void end_init(struct job *job) {
    if (job->init > 0)
        jail_end_child(job->init, END_MILLISECONDS);
    job->init = 0;
}

static int await_exec(struct jail *jail, struct job *job) {
    for (pid_t shares; (shares = __atomic_load_n(&start.shares, __ATOMIC_ACQUIRE));)
        syscall(SYS_futex, &start.shares, FUTEX_WAIT, shares, NULL, NULL, 0);
    if (!start.error)
        return 0;
    end_init(job);
    return jail_fail(jail, "%s: %s", start.failed, strerror(start.error));
}

static void await(sem_t *event) {
    while (sem_wait(event) && errno == EINTR)
        ;
}

static void *keep(void *argument) {
    struct job *job = argument;
    struct jail jail;
    char path[sizeof(JOB_FOLDER) + 16];
    jail_init(&jail, job->root);
    job_lock_path(job, path, sizeof(path));
    if (await_exec(&jail, job)) {
        leave_reason(&jail, path);
    } else if (job->confine && job->confine(&jail)) {
        /* First: leave_reason closes a descriptor of the lock's file, which gives up JOB_STARTS. */
        end_init(job);
        leave_reason(&jail, path);
    }
    /* Gives up JOB_STARTS as well: a step that finds no job_init now finds the reason. */
    close(job->lock);
    sem_post(&job->started);
    return NULL;
}

/* No signal handler of slurmstepd runs in this thread. */
static int start_thread(struct jail *jail, struct job *job) {
    sigset_t all;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &job->mask);
    int error = pthread_create(&thread, NULL, keep, job);
    pthread_sigmask(SIG_SETMASK, &job->mask, NULL);
    return error ? jail_fail(jail, "make a thread: %s", strerror(error)) : pthread_detach(thread);
}

static int start_init(struct jail *jail, struct job *job, const char *path) {
    if ((job->lock = open_lock(jail, path)) < 0)
        return -1;
    if (!bear_init(jail, job)) {
        if (!start_thread(jail, job))
            return 0;
        end_init(job);
    }
    close(job->lock);
    return -1;
}

int job_keep(struct jail *jail, struct job *job) {
    char path[sizeof(JOB_FOLDER) + 16];
    job_lock_path(job, path, sizeof(path));
    if (mkdir(JOB_FOLDER, 0700) && errno != EEXIST)
        return jail_fail_errno(jail, JOB_FOLDER);
    unlink(path);
    job->kept = true;
    job->root = jail->root;
    sem_init(&job->started, 0, 0);
    if (!start_init(jail, job, path))
        return 0;
    sem_post(&job->started);
    leave_reason(jail, path);
    return -1;
}

/* Whoever can't be told to begin is told to end: the thread waits for one of both. */
void job_may_begin(struct job *job) {
    const uint64_t once = 1;
    if (job->kept && write(start.go, &once, sizeof(once)) < 0)
        kill(job->init, SIGKILL);
}

void job_await_start(struct job *job) {
    if (!job->kept)
        return;
    await(&job->started);
    sem_post(&job->started);
}

void job_end(struct job *job) {
    char path[sizeof(JOB_FOLDER) + 16];
    if (!job->kept)
        return;
    job_may_begin(job);
    job_await_start(job);
    end_init(job);
    job_lock_path(job, path, sizeof(path));
    unlink(path);
    job->kept = false;
}

int job_join(struct jail *jail, struct job *job, int seconds) {
    return job_heed_probes(jail) ? -1 : job_join_probe(jail, job, seconds);
}

int job_join_probe(struct jail *jail, struct job *job, int seconds) {
    char path[sizeof(JOB_FOLDER) + 16];
    job_lock_path(job, path, sizeof(path));
    int file = open(path, O_RDWR | O_CLOEXEC);
    /* slurmstepd keeps the user's group after it has set up a container. The kernel shows job_init's namespaces only to
     * job_init's own user and group. */
    int group = setfsgid(getgid());
    int failed = job_find(jail, job, file, seconds);
    setfsgid((gid_t)group);
    if (file >= 0)
        close(file);
    if (failed)
        return -1;
    /* Only a thread with a root folder of its own can join a mount namespace. Threads of one process share theirs. */
    if (unshare(CLONE_FS) || setns(job->outer, CLONE_NEWNS))
        return jail_fail_errno(jail, "join the job's mounts (is SYS_CHROOT among the pod's capabilities?)");
    return jail_adopt_root(jail);
}

/* Puts SYS_ADMIN into the effective set or takes it out. A change of the effective user from root clears it there; the
 * permitted set keeps it. */
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
    int scripts = script ? job_mounts_pick_up(jail, script) : -1;
    if (script && scripts < 0)
        return -1;
    if (setns(job->inner, CLONE_NEWNS) || setns(job->ipc, CLONE_NEWIPC))
        return jail_fail_errno(jail, "join the job's namespaces");
    if (scripts >= 0 && job_mounts_place(jail, scripts, script))
        return -1;
    return born_inside(jail, job);
}
