#include "confine.h"
#include "call_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* In a cgroup namespace, root of a user namespace could mount the job's own group, writable, and set its limits.
 */
#define FORBIDDEN_FLAGS CLONE_NEWCGROUP

#define REFUSE(call) SKIP_UNLESS_EQUAL(call, 1), ANSWER(EPERM)

/* The calls of one architecture. A 64-bit kernel also takes those of its 32-bit sibling, by other numbers.
 *
 * clone3 has its flags in memory, where a filter can't look; without it, C libraries use clone. unshare and clone have
 * them in the first argument, in its lower half.
 *
 * Container runtimes' default profile refuses the last five to a pod without SYS_ADMIN. This pod has SYS_ADMIN, its
 * tasks have not. The calls reach the kernel's log, kernel programs, all file accesses, and quotas. Some kernels'
 * settings allow them to everybody. */
#define CALLS_OF(architecture, unshare, clone, clone3, syslog, bpf, fanotify_init, quotactl, quotactl_fd)              \
    SKIP_UNLESS_EQUAL(architecture, 21), LOAD(nr), SKIP_UNLESS_SET(X32, 1), ANSWER(ENOSYS),                            \
        SKIP_UNLESS_EQUAL(clone3, 1), ANSWER(ENOSYS), REFUSE(syslog), REFUSE(bpf), REFUSE(fanotify_init),              \
        REFUSE(quotactl), REFUSE(quotactl_fd), SKIP_IF_EQUAL(unshare, 1), SKIP_UNLESS_EQUAL(clone, 3), LOAD(args[0]),  \
        SKIP_UNLESS_SET(FORBIDDEN_FLAGS, 1), ANSWER(EPERM), ALLOW

/* One filter for both: Linux compiles each, and tries each with all numbers of calls. */
static const struct sock_filter code[] = {
    LOAD(arch),
#if defined(__x86_64__)
    CALLS_OF(AUDIT_ARCH_X86_64, SYS_unshare, SYS_clone, SYS_clone3, SYS_syslog, SYS_bpf, SYS_fanotify_init,
             SYS_quotactl, 443),
    CALLS_OF(AUDIT_ARCH_I386, 310, 120, 435, 103, 357, 338, 131, 443),
#elif defined(__aarch64__)
    CALLS_OF(AUDIT_ARCH_AARCH64, SYS_unshare, SYS_clone, SYS_clone3, SYS_syslog, SYS_bpf, SYS_fanotify_init,
             SYS_quotactl, 443),
    CALLS_OF(AUDIT_ARCH_ARM, 337, 120, 435, 103, 386, 367, 131, 443),
#else
#error "which numbers have these calls here?"
#endif
    ALLOW,
};

int confine(struct jail *jail) {
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = (struct sock_filter *)code};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
        return jail_fail_errno(jail, "forbid system calls (is SYS_ADMIN among the pod's capabilities?)");
    return jail_drop_capabilities(jail);
}
