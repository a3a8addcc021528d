/* Bounds the nodes that a heterogeneous job names. slurmctld (26.05, _exclude_het_job_nodes) copies what each component
 * requires into every other's list of nodes to avoid. It does so before it looks at any of them: a message of 14 MB
 * took 1.8 GB. Beyond the bound this library names a node that no cluster has, so slurmctld refuses the job. */
#include "message_guard.h"

#include <slurm/slurm.h>
#include <stdio.h>
#include <string.h>

#define MOST_COMPONENTS 256
#define MOST_OF_NODES ((size_t)64 << 10) /* Bytes of the lists of all components together. */
#define NO_NODE "?"

/* Slurm's own; slurm_functions.h does not go with Slurm's headers. */
void list_append(void *list, void *item);

static void (*real_append)(void *, void *);
static char *(*copy_of)(const char *);
static void (*forget)(job_desc_msg_t *);
static __thread struct {
    bool is_reading, is_refused;
    size_t components, length;
    job_desc_msg_t *last;
} job;

void components_begin(const char *type) {
    bool is_of_one = !strcmp(type, "REQUEST_SUBMIT_BATCH_HET_JOB") || !strcmp(type, "REQUEST_HET_JOB_ALLOCATION");
    memset(&job, 0, sizeof(job));
    job.is_reading = is_of_one && guard_is_controller();
}

void components_end(void) {
    if (job.is_refused)
        fprintf(stderr,
                "error: refused a heterogeneous job of uid %d: it names too many nodes, or has more than %d parts\n",
                (int)guard_sender(), MOST_COMPONENTS);
    job.is_reading = false;
}

static void refuse(job_desc_msg_t *component) {
    if (component->req_nodes && component->req_nodes[0])
        memcpy(component->req_nodes, NO_NODE, component->req_nodes[1] ? sizeof(NO_NODE) : 1);
    else
        component->req_nodes = copy_of(NO_NODE);
    job.is_refused = true;
}

/* While slurmctld reads a heterogeneous job, it appends descriptions of its components alone. */
void list_append(void *list, void *item) {
    if (!job.is_reading) {
        waiting_steps_see(list);
        real_append(list, item);
        return;
    }
    job_desc_msg_t *component = item;
    if (++job.components > MOST_COMPONENTS) {
        forget(component);
        refuse(job.last);
        return;
    }
    job.length += component->req_nodes ? strlen(component->req_nodes) : 0;
    if (job.length > MOST_OF_NODES)
        refuse(component);
    job.last = component;
    real_append(list, component);
}

void components_find(void) {
    *(void **)&real_append = guard_find("list_append");
    *(void **)&copy_of = guard_find("slurm_xstrdup");
    *(void **)&forget = guard_find("slurm_free_job_desc_msg");
}
