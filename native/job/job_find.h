/* Finds a job's job_init on this node, by the locks that it holds on the job's file. */
#ifndef PULUMI_SLURM_JOB_FIND_H
#define PULUMI_SLURM_JOB_FIND_H

#include "job.h"

#include <stddef.h>

void job_lock_path(const struct job *job, char *path, size_t size);

/* Waits until job_init has made the job's namespaces, and opens them. file: the job's file, which job_init has locked,
 * or -1 if there is none. Returns 0, or -1 with the reason in jail->why and no descriptor open. */
int job_find(struct jail *jail, struct job *job, int file, int seconds);

#endif
