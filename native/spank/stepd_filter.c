#include "stepd_filter.h"
#include "call_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "which architecture is this?"
#endif

#define NAMESPACES                                                                                                     \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct sock_filter first[] = {
    /* slurmstepd is a program of this architecture, and starts none of another. */
    LOAD(arch),
    SKIP_IF_EQUAL(ARCHITECTURE, 1),
    ANSWER(ENOSYS),
    LOAD(nr),
    SKIP_UNLESS_SET(X32, 1),
    ANSWER(ENOSYS),
    /* Its flags are in memory, where a filter can't look; without it, C libraries use clone. */
    SKIP_UNLESS_EQUAL(SYS_clone3, 1),
    ANSWER(ENOSYS),
    /* Pyxis closes all descriptors in its children, also the one that late_program.h needs; or none on an old kernel.
     */
    SKIP_UNLESS_EQUAL(SYS_close_range, 1),
    ANSWER(ENOSYS),
    /* For a debugger, slurmstepd releases stopped tasks after all are forked (Slurm's pdebug.c). */
    SKIP_UNLESS_EQUAL(SYS_ptrace, 4),
    LOAD(args[0]),
    SKIP_UNLESS_EQUAL(PTRACE_DETACH, 1),
    ALLOW,
    ANSWER(EPERM),
    SKIP_UNLESS_EQUAL(SYS_clone, 4),
    LOAD(args[0]),
    SKIP_UNLESS_SET(NAMESPACES, 1),
    ANSWER(EPERM),
    ALLOW,
};

static const unsigned refused[] = {
    SYS_execve,
    SYS_execveat,
    SYS_setns,
    SYS_unshare,
    SYS_chroot,
    SYS_pivot_root,
    SYS_mount,
    SYS_umount2,
    SYS_move_mount,
    SYS_open_tree,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    467, /* open_tree_attr */
    SYS_open_by_handle_at,
    SYS_mknodat,
#ifdef SYS_mknod
    SYS_mknod,
#endif
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_pidfd_getfd,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_syslog,
    SYS_acct,
    SYS_quotactl,
    SYS_quotactl_fd,
    SYS_fanotify_init,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
};

#define GROUP 8
#define GROUPS ((COUNT(refused) + GROUP - 1) / GROUP)
#define LONGEST (COUNT(first) + COUNT(refused) + 3 * GROUPS)

static int ascending(const void *one, const void *other) {
    unsigned a = *(const unsigned *)one, b = *(const unsigned *)other;
    return (a > b) - (a < b);
}

/* Has the refused calls in groups, ascending, and looks for the group first. Linux tries a new filter with all numbers
 * of calls: a list of 44 took it 0.1 ms. Returns the length. Shares no memory: another thread may fork meanwhile. */
static unsigned short write_filter(struct sock_filter code[LONGEST]) {
    struct sock_filter *next = code + COUNT(first);
    unsigned calls[COUNT(refused)];
    memcpy(code, first, sizeof(first));
    memcpy(calls, refused, sizeof(refused));
    qsort(calls, COUNT(calls), sizeof(calls[0]), ascending);
    for (size_t begin = 0; begin < COUNT(calls); begin += GROUP) {
        size_t end = begin + GROUP < COUNT(calls) ? begin + GROUP : COUNT(calls);
        if (end < COUNT(calls))
            *next++ = (struct sock_filter)SKIP_IF_AT_LEAST(calls[end], (unsigned char)(end - begin + 2));
        for (size_t i = begin; i < end; i++)
            *next++ = (struct sock_filter)SKIP_IF_EQUAL(calls[i], (unsigned char)(end - i));
        *next++ = (struct sock_filter)ALLOW;
        *next++ = (struct sock_filter)ANSWER(EPERM);
    }
    return (unsigned short)(next - code);
}

int stepd_filter(struct jail *jail) {
    struct sock_filter code[LONGEST];
    struct sock_fprog program = {.len = write_filter(code), .filter = code};
    /* No later program needs more privileges. With this flag the filter needs no SYS_ADMIN, which the effective user
     * may lack here. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return jail_fail_errno(jail, "give up new privileges");
    long thread = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    if (thread > 0)
        return jail_fail(jail, "forbid system calls to slurmstepd: thread %ld has a filter of its own", thread);
    return thread ? jail_fail_errno(jail, "forbid system calls to slurmstepd") : 0;
}
