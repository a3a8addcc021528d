/* Runs programs that slurmstepd starts after its tasks, such as task epilogs, inside of the job.
 *
 * slurmstepd may start no program then (stepd_filter.h). A task leaves a runner (late_runner.c) behind before it
 * becomes the user's program. It is in the task's namespaces, groups and limits, as its user. A child of slurmstepd
 * that wants to become a program asks the runner instead, and ends as that program ends. */
#ifndef PULUMI_SLURM_LATE_PROGRAM_H
#define PULUMI_SLURM_LATE_PROGRAM_H

#include "jail.h"

#include <stdint.h>

#include "contract.h"

/* Where the runner listens, and how many descriptors come with a request: the answer's, and the program's 0 to 2. */
#define LATE_DESCRIPTOR 3
#define LATE_DESCRIPTORS 4

/* Follows on the answer's descriptor, with `size` bytes of words that each end with a zero: folder, path, arguments,
 * environment. */
struct late_request {
    uint32_t size, arguments, variables;
};

/* error: errno of a failed start, or 0; then status is the program's, as wait(2) returns it. */
struct late_answer {
    int32_t error, status;
};

/* For a task, which is the user already: starts the runner, which listens on `channel`. */
int late_start_runner(struct jail *jail, int channel);

/* Asks the runner on `channel` for a program, and ends this process as the program ended. Returns -1 if it could not be
 * started, with the reason in errno, or in jail->why if errno is 0. */
int late_program(struct jail *jail, int channel, const char *path, char *const arguments[], char *const environment[]);

#endif
