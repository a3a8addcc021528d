/* slurmctld's plugin that refuses job options which the jail cannot support, and jobs that slurmctld cannot.
 *
 * In slurmctld, since every client can ask: with options, lines of a batch script, or over Slurm's protocol. Others of
 * slurm.options' JobSubmitPlugins come after it. */
#include <arpa/inet.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* slurmctld keeps these texts of each job in memory, and in its state. */
#define MOST_KEPT ((size_t)1 << 20)
/* Bytes of a job's SPANK variables. They go to prologs: a program with a longer environment does not start, and Slurm
 * drains the node. */
#define MOST_OF_SPANK ((size_t)64 << 10)
/* Slurm compares each of them with all others. A longer name is none to it. */
#define MOST_VARIABLES 256
#define LONGEST_NAME 255

/* slurm.h has both since 24.05; checks of this file may have an older one. */
#ifndef STEPMGR_ENABLED
#define STEPMGR_ENABLED SLURM_BIT(41)
#define container_id container
#endif

const char plugin_name[] = "what the jail cannot give a job";
const char plugin_type[] = "job_submit/jail";
const uint32_t plugin_version = SLURM_VERSION_NUMBER;

/* Slurm's own allocator, in no public header: slurmctld frees the sentence with its counterpart. */
extern char *slurm_xstrdup(const char *text);

int job_submit(job_desc_msg_t *job, uint32_t user, char **sentence);
int job_modify(job_desc_msg_t *job, void *record, uint32_t user, char **sentence);

static size_t length_of(char *const *texts, uint32_t count) {
    size_t length = 0;
    for (uint32_t i = 0; texts && i < count; i++)
        length += texts[i] ? strlen(texts[i]) + 1 : 0;
    return length;
}

/* Returns the length of the texts that slurmctld bounds itself by a megabyte, or not at all. */
static size_t length_of_unbounded(const job_desc_msg_t *job) {
    const char *const texts[] = {job->submit_line,    job->container,       job->container_id, job->acctg_freq,
                                 job->batch_features, job->selinux_context, job->req_nodes,    job->exc_nodes,
                                 job->resp_host,      job->origin_cluster,  job->req_context,  job->clusters,
                                 job->x11_target,     job->x11_magic_cookie};
    size_t length = 0;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        length += texts[i] ? strlen(texts[i]) : 0;
    return length;
}

static size_t length_of_name(const char *variable) {
    const char *equals = variable ? strchr(variable, '=') : NULL;
    return equals ? (size_t)(equals - variable) : 0;
}

/* slurmctld (26.05, job_common_env_vars) merges the variables by their names, for mail and for its own prolog. It then
 * writes to as many as were sent. If some have no name, or two have one, that is past the end of its array. */
static bool has_each_its_name(char *const *variables, uint32_t count) {
    for (uint32_t i = 0; variables && i < count; i++) {
        size_t length = length_of_name(variables[i]);
        if (!length || length > LONGEST_NAME)
            return false;
        for (uint32_t before = 0; before < i; before++)
            if (!strncmp(variables[before], variables[i], length + 1))
                return false;
    }
    return true;
}

/* slurmctld (26.05) keeps these as they come. It does not start with a job that has another one ("Incomplete job state
 * save file"). Nobody can change them for a job that waits. */
static bool has_odd_switches(const job_desc_msg_t *job) {
    return (job->contiguous > 1 && job->contiguous != NO_VAL16) ||
           (job->overcommit > 1 && job->overcommit != NO_VAL8) ||
           (job->kill_on_node_fail > 1 && job->kill_on_node_fail != NO_VAL16);
}

/* slurmctld looks it up under its locks. It takes the address that a command comes from where none is named. */
static bool is_address(const char *host) {
    unsigned char address[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

/* Returns what is wrong with a job's texts and numbers, or NULL. */
static const char *fault(const job_desc_msg_t *job) {
    if (length_of(job->spank_job_env, job->spank_job_env_size) > MOST_OF_SPANK)
        return "the variables for prologs are longer than 64 KiB";
    if (job->spank_job_env_size > MOST_VARIABLES)
        return "there are more than 256 variables for prologs";
    if (!has_each_its_name(job->spank_job_env, job->spank_job_env_size))
        return "each variable for prologs wants a name of its own, and a value: NAME=VALUE";
    /* slurmctld (26.05) then looks for its federation, and ends (SIGSEGV): a cluster is in none here. */
    if (job->fed_siblings_active || job->fed_siblings_viable)
        return "the job names clusters of a federation, and there is none: leave them out";
    if (job->resp_host && !is_address(job->resp_host))
        return "the host to answer to is no address: leave it out";
    if (has_odd_switches(job))
        return "contiguous, overcommit and kill_on_node_fail are 0 or 1";
    if (length_of_unbounded(job) + length_of(job->argv, job->argc) > MOST_KEPT)
        return "the command line, the script's arguments and names are longer than 1 MiB: write them to a file";
    return NULL;
}

/* The step manager is a slurmstepd that holds slurm.key and answers users. */
int job_submit(job_desc_msg_t *job, uint32_t user, char **sentence) {
    (void)user;
    const char *refusal = fault(job);
    if (job->bitflags & STEPMGR_ENABLED)
        refusal = "--stepmgr is refused: it would bring the cluster's key to the job's node; leave it out";
    if (!refusal)
        return SLURM_SUCCESS;
    *sentence = slurm_xstrdup(refusal);
    return ESLURM_NOT_SUPPORTED;
}

/* A running job may give nodes back, but not all. slurmctld (26.05) takes a list without a name, and the job runs on.
 * Started anew, it has no resources for that job, and ends when the job's user asks for an interactive step. A job has
 * its step manager from the start, or never. */
int job_modify(job_desc_msg_t *job, void *record, uint32_t user, char **sentence) {
    (void)record, (void)user;
    const char *nodes = job->req_nodes ? job->req_nodes : "";
    if (!nodes[0] || nodes[strspn(nodes, ", \t\n")])
        return SLURM_SUCCESS;
    *sentence = slurm_xstrdup("the list of nodes names none");
    return ESLURM_INVALID_NODE_NAME;
}
