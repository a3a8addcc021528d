/* Makes system calls with arguments that the kernel refuses anyhow. It makes them in the main thread, in a second
 * thread, and in a child. The calling test compares their errors with slurmstepd's filter and without it.
 *
 *   stepd_filter_probe filtered|unfiltered
 *
 * Prints a line for each call: NAME MAIN THREAD CHILD, each an errno. Then it prints what slurmstepd still needs. */
#include "jail.h"
#include "stepd_filter.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALL(name) {#name, SYS_##name}
static const struct {
    const char *name;
    long number;
} calls[] = {
    CALL(execve),
    CALL(execveat),
    CALL(mount),
    CALL(umount2),
    CALL(move_mount),
    CALL(open_tree),
    CALL(fsopen),
    CALL(fsconfig),
    CALL(fsmount),
    CALL(fspick),
    CALL(mount_setattr),
    CALL(pivot_root),
    CALL(chroot),
    CALL(setns),
    CALL(unshare),
    CALL(ptrace),
    CALL(process_vm_readv),
    CALL(process_vm_writev),
    CALL(pidfd_getfd),
    CALL(open_by_handle_at),
    CALL(mknodat),
    CALL(bpf),
    CALL(io_uring_setup),
    CALL(clone3),
};

static struct {
    sem_t asked, answered;
    long number;
    int error;
} thread;

/* Every pointer is bad and every descriptor closed: a call that the filter lets through changes nothing. */
static int refused(long number) {
    long first = number == SYS_ptrace ? PTRACE_ATTACH : number == SYS_unshare ? CLONE_NEWNS | 1 : -1;
    errno = 0;
    return syscall(number, first, -1L, -1L, -1L, -1L, -1L) < 0 ? errno : 0;
}

static int refused_to_child(long number) {
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(refused(number));
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void *answer(void *unused) {
    for (;;) {
        sem_wait(&thread.asked);
        thread.error = refused(thread.number);
        sem_post(&thread.answered);
    }
    return unused;
}

static int refused_to_thread(long number) {
    thread.number = number;
    sem_post(&thread.asked);
    sem_wait(&thread.answered);
    return thread.error;
}

static void *nothing(void *unused) {
    return unused;
}

/* The raw call: the C library's clone wants a stack. */
static int cloned(unsigned long flags) {
    errno = 0;
    long child = syscall(SYS_clone, flags | SIGCHLD, 0L, 0L, 0L, 0L);
    if (child == 0)
        _exit(EXIT_SUCCESS);
    if (child > 0)
        waitpid((pid_t)child, NULL, 0);
    return child < 0 ? errno : 0;
}

static void tell_what_is_left(void) {
    pthread_t later;
    errno = 0;
    printf("fork %d\n", refused_to_child(SYS_getpid));
    printf("thread %d\n", pthread_create(&later, NULL, nothing, NULL) ? -1 : pthread_join(later, NULL));
    printf("detach %d\n", syscall(SYS_ptrace, PTRACE_DETACH, getpid(), 0L, 0L) < 0 ? errno : 0);
    printf("clone %d\n", cloned(0));
    printf("clone mnt %d\n", cloned(CLONE_NEWNS));
    printf("clone pid %d\n", cloned(CLONE_NEWPID));
    printf("clone user %d\n", cloned(CLONE_NEWUSER));
#ifdef __x86_64__
    long answer;
    /* getpid by its number of i386. */
    __asm__ volatile("int $0x80" : "=a"(answer) : "a"(20L) : "memory");
    printf("i386 %d\n", answer < 0 ? (int)-answer : 0);
#endif
}

int main(int argc, char *argv[]) {
    struct jail jail;
    pthread_t second;
    jail_init(&jail, "/");
    sem_init(&thread.asked, 0, 0);
    sem_init(&thread.answered, 0, 0);
    if (argc < 2 || pthread_create(&second, NULL, answer, NULL))
        return EXIT_FAILURE;
    if (!strcmp(argv[1], "filtered") && stepd_filter(&jail)) {
        fprintf(stderr, "%s\n", jail.why);
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        printf("%s %d %d %d\n", calls[i].name, refused(calls[i].number), refused_to_thread(calls[i].number),
               refused_to_child(calls[i].number));
    tell_what_is_left();
    return EXIT_SUCCESS;
}
