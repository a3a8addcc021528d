/* Stands at /bin/su in the pod. slurmd runs `su - USER -c …` for `sbatch --export=NONE` and `--get-user-env`, before
 * any plugin and with the user's own start-up files. So this program first enters the jail, hides the node and other
 * jobs, and then runs the jail's su. No job's control group holds it, so it joins one of the user's own. */
#include "confine.h"
#include "jail.h"
#include "job_mounts.h"
#include "user_limits.h"

#include <errno.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEADLINE_SECONDS 10

static _Noreturn void run(struct jail *jail, char *argv[]) {
    struct job_mounts mounts;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || job_mounts_make_outer(jail, &mounts) || job_mounts_hide_node(jail, NULL) ||
        job_mounts_make_proc(jail) || job_mounts_verify_outer(jail, &mounts) || jail_verify(jail) || confine(jail)) {
        fprintf(stderr, "su: refusing to run outside the jail: %s\n", jail->why);
        _exit(1);
    }
    argv[0] = "su";
    execv("/bin/su", argv);
    perror("su: /bin/su in the jail");
    _exit(1);
}

static int outcome_of(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Runs in the pod's root, where control groups are writable. */
static int limit(struct jail *jail, char *argv[]) {
    char **name = argv + 1;
    while (*name && **name == '-')
        name++;
    const struct passwd *user = *name ? getpwnam(*name) : NULL;
    if (!user)
        return jail_fail(jail, "no user %s", *name ? *name : "is named");
    return user_limits_apply(jail, PROFILE_LIMITS, user->pw_uid);
}

int main(int argc, char *argv[]) {
    struct jail jail;
    (void)argc;
    jail_init(&jail, JAIL_DEFAULT_ROOT);
    int failed = jail_check_within(&jail, DEADLINE_SECONDS) || limit(&jail, argv) || jail_enter(&jail);
    if (!failed && unshare(CLONE_NEWPID | CLONE_NEWIPC))
        failed = jail_fail_errno(&jail, "make namespaces of its own");
    pid_t child = failed ? -1 : fork();
    if (child == 0)
        run(&jail, argv);
    if (child < 0) {
        fprintf(stderr, "su: refusing to run: %s\n", failed ? jail.why : "no process to be had");
        return 1;
    }
    return outcome_of(child);
}
