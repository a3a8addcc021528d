/* Makes and ends a job's namespaces as the extern step does, so that the node knows before a job whether one could run.
 *
 *   jail_trial ROOT
 *
 * Prints nothing and ends with 0, or prints why not. A process that hangs with the storage is waited for after the
 * sentence: who starts no second trial while this one lives never piles them up. */
#include "jail.h"
#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEADLINE_SECONDS 10
/* No job has it: Slurm counts from 1. */
#define TRIAL_JOB 0

int main(int argc, char *argv[]) {
    struct jail jail;
    struct job job;
    jail_init(&jail, argc > 1 ? argv[1] : JAIL_DEFAULT_ROOT);
    job_init(&job, TRIAL_JOB);
    int failed = job_keep(&jail, &job, DEADLINE_SECONDS);
    if (failed)
        puts(jail.why);
    job_end(&job);
    fclose(stdout);
    while (wait(NULL) > 0)
        ;
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
