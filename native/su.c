/* Stands at /bin/su in the pod. slurmd runs `su - USER -c …` for `sbatch --export=NONE` and `--get-user-env`, before
 * any plugin and with the user's own start-up files: so it must enter the jail first, see nothing of the node nor of
 * others' jobs, and use the jail's su. */
#include "confine.h"
#include "jail.h"
#include "view.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEADLINE_SECONDS 10

static _Noreturn void run(struct jail *jail, char *argv[]) {
    struct view view;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || view_make_outer(jail, &view) || view_hide_node(jail, NULL) ||
        view_make_proc(jail) || view_verify_outer(jail, &view) || jail_verify(jail) || confine(jail)) {
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
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char *argv[]) {
    struct jail jail;
    (void)argc;
    jail_init(&jail, JAIL_DEFAULT_ROOT);
    int failed = jail_check_within(&jail, DEADLINE_SECONDS) || jail_enter(&jail);
    if (!failed && unshare(CLONE_NEWPID | CLONE_NEWIPC))
        failed = jail_fail_errno(&jail, "make namespaces of its own");
    pid_t child = failed ? -1 : fork();
    if (child == 0)
        run(&jail, argv);
    if (child < 0) {
        fprintf(stderr, "su: refusing to run outside the jail: %s\n", failed ? jail.why : "no process to be had");
        return 1;
    }
    return outcome_of(child);
}
