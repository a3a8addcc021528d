#include "stepd_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
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

/* The numbers of x32 on x86-64 carry this bit. */
#define X32 0x40000000
#define NAMESPACES                                                                                                     \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ANSWER(error) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define SKIP_UNLESS_EQUAL(value, count) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, count)
#define SKIP_IF_EQUAL(value, count) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, count, 0)
#define SKIP_UNLESS_SET(bits, count) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, count)
#define REFUSE(call) SKIP_UNLESS_EQUAL(call, 1), ANSWER(EPERM)

static struct sock_filter code[] = {
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
    REFUSE(SYS_execve),
    REFUSE(SYS_execveat),
    REFUSE(SYS_setns),
    REFUSE(SYS_unshare),
    REFUSE(SYS_chroot),
    REFUSE(SYS_pivot_root),
    REFUSE(SYS_mount),
    REFUSE(SYS_umount2),
    REFUSE(SYS_move_mount),
    REFUSE(SYS_open_tree),
    REFUSE(SYS_fsopen),
    REFUSE(SYS_fsconfig),
    REFUSE(SYS_fsmount),
    REFUSE(SYS_fspick),
    REFUSE(SYS_mount_setattr),
    REFUSE(467), /* open_tree_attr */
    REFUSE(SYS_open_by_handle_at),
    REFUSE(SYS_mknodat),
#ifdef SYS_mknod
    REFUSE(SYS_mknod),
#endif
    REFUSE(SYS_process_vm_readv),
    REFUSE(SYS_process_vm_writev),
    REFUSE(SYS_pidfd_getfd),
    REFUSE(SYS_bpf),
    REFUSE(SYS_perf_event_open),
    REFUSE(SYS_userfaultfd),
    REFUSE(SYS_io_uring_setup),
    REFUSE(SYS_init_module),
    REFUSE(SYS_finit_module),
    REFUSE(SYS_delete_module),
    REFUSE(SYS_kexec_load),
    REFUSE(SYS_kexec_file_load),
    REFUSE(SYS_reboot),
    REFUSE(SYS_swapon),
    REFUSE(SYS_swapoff),
    REFUSE(SYS_sethostname),
    REFUSE(SYS_setdomainname),
    REFUSE(SYS_syslog),
    REFUSE(SYS_acct),
    REFUSE(SYS_quotactl),
    REFUSE(SYS_quotactl_fd),
    REFUSE(SYS_fanotify_init),
    REFUSE(SYS_add_key),
    REFUSE(SYS_request_key),
    REFUSE(SYS_keyctl),
    /* For a debugger, slurmstepd releases stopped tasks after all are forked (Slurm's pdebug.c). */
    SKIP_UNLESS_EQUAL(SYS_ptrace, 4),
    LOAD(args[0]),
    SKIP_UNLESS_EQUAL(PTRACE_DETACH, 1),
    ALLOW,
    ANSWER(EPERM),
    SKIP_UNLESS_EQUAL(SYS_clone, 3),
    LOAD(args[0]),
    SKIP_UNLESS_SET(NAMESPACES, 1),
    ANSWER(EPERM),
    ALLOW,
};

int stepd_filter(struct jail *jail) {
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
    /* No later program needs more privileges. With this flag the filter needs no SYS_ADMIN, which the effective user
     * may lack here. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return jail_fail_errno(jail, "give up new privileges");
    long refused = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    if (refused > 0)
        return jail_fail(jail, "forbid system calls to slurmstepd: thread %ld has a filter of its own", refused);
    return refused ? jail_fail_errno(jail, "forbid system calls to slurmstepd") : 0;
}
