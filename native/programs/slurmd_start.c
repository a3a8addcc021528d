/* Fetches the configuration, makes slurmstepd's view of the pod, then becomes slurmd. slurmd runs under this program's
 * name, so it restarts itself through it (docs/adr/0019). Each slurmd then begins with the files that slurmctld returns
 * to this node, whoever told it to read them again.
 *
 * slurmd starts its prologs through its own name, too: this program passes those on at once. */
#include "contract.h"
#include "stepd_view.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef START_FETCH
#define START_FETCH "/usr/bin/python3", "-m", "slurm_node", "fetch"
#endif
/* run_command.h */
#define LAUNCHER "slurm_script_launcher"

static int fetch(void) {
    char *const command[] = {START_FETCH, NULL};
    int status;
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execv(command[0], command);
        perror(command[0]);
        _exit(127);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            child = -1;
    return child > 0 && WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -1;
}

int main(int argc, char *argv[]) {
    char why[256];
    if (argc < 2 || strcmp(argv[1], LAUNCHER) != 0) {
        if (fetch()) {
            fputs("slurmd: no configuration to start with\n", stderr);
            return 1;
        }
        if (stepd_view_prepare(why, sizeof(why)))
            fprintf(stderr, "slurmd: each step makes its own view of the pod: %s\n", why);
    }
    execv(SLURMD, argv);
    perror(SLURMD);
    return 127;
}
