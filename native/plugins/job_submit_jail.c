/* slurmctld's plugin that refuses job options which the jail cannot support.
 *
 * In slurmctld, since every client can ask: with options, lines of a batch script, or over Slurm's protocol. Others of
 * slurm.options' JobSubmitPlugins come after it. */
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdint.h>

/* slurm.h has it since 24.05; checks of this file may have an older one. */
#ifndef STEPMGR_ENABLED
#define STEPMGR_ENABLED SLURM_BIT(41)
#endif

const char plugin_name[] = "what the jail cannot give a job";
const char plugin_type[] = "job_submit/jail";
const uint32_t plugin_version = SLURM_VERSION_NUMBER;

/* Slurm's own allocator, in no public header: slurmctld frees the sentence with its counterpart. */
extern char *slurm_xstrdup(const char *text);

int job_submit(job_desc_msg_t *job, uint32_t user, char **sentence);
int job_modify(job_desc_msg_t *job, void *record, uint32_t user, char **sentence);

/* The step manager is a slurmstepd that holds slurm.key and answers users. */
int job_submit(job_desc_msg_t *job, uint32_t user, char **sentence) {
    (void)user;
    if (!(job->bitflags & STEPMGR_ENABLED))
        return SLURM_SUCCESS;
    *sentence = slurm_xstrdup("--stepmgr is refused: it would bring the cluster's key to the job's node; leave it out");
    return ESLURM_NOT_SUPPORTED;
}

/* A job has its step manager from the start, or never. */
int job_modify(job_desc_msg_t *job, void *record, uint32_t user, char **sentence) {
    (void)job, (void)record, (void)user, (void)sentence;
    return SLURM_SUCCESS;
}
