/* Tells whether a launch is of whom slurmctld signed it for. Slurm (26.05) takes a step's id from the launch's
 * credential, and looks at the rest of it late: first slurmd waits for the job's prolog. On a node that is not the
 * job's none comes. slurmd then drains its node. It also cancels the job whose number stands in the launch as
 * that of a heterogeneous job: any user's.
 *
 * Tells also whether users start such a step. A user chooses his step's number, and slurmctld signs it. Once he has
 * told it that the job's extern step is over, it signs that number, too. A second extern step takes the socket of the
 * first, which then outlives its job with the job's namespaces. */
#include "message_guard.h"
#include "slurm_functions.h"

#include <unistd.h>

#define MOST_STEPS 0xfffffff0U  /* SLURM_MAX_NORMAL_STEP_ID */
#define INTERACTIVE 0xfffffffaU /* SLURM_INTERACTIVE_STEP, of salloc */
#define LONGEST_NODE 256

/* The first fields of Slurm's slurm_cred_arg_t. */
struct signed_for {
    struct {
        uint64_t sluid;
        uint32_t job, component, step;
    } id;
    uid_t uid;
};

static void *(*real_unpack)(void *, uint16_t);
static const struct signed_for *(*verify)(void *);
static void (*memory_on)(void *, char *, const char *, uint64_t *, uint64_t *);
static struct {
    bool is_looking;
    void *credential;
} launch;

void credential_begin(void) {
    launch.is_looking = true;
}

void *slurm_cred_unpack(void *buffer, uint16_t version) {
    void *credential = real_unpack(buffer, version);
    if (launch.is_looking)
        launch.credential = credential;
    return credential;
}

/* slurmd's node has its pod's name. Slurm tells a job's memory on a node of the job alone. */
static bool has_this_node(void *credential) {
    const uint64_t none = UINT64_MAX;
    char node[LONGEST_NODE] = "";
    uint64_t memory = none;
    if (gethostname(node, sizeof(node) - 1))
        return false;
    memory_on(credential, node, __func__, &memory, NULL);
    return memory != none;
}

enum launch_verdict credential_judge(void) {
    const struct signed_for *whose = launch.credential ? verify(launch.credential) : NULL;
    if (!whose || whose->uid != guard_sender() || !has_this_node(launch.credential))
        return OF_OTHERS;
    return whose->id.step <= MOST_STEPS || whose->id.step == INTERACTIVE ? FITS : OF_SLURM;
}

void credential_find(void) {
    *(void **)&real_unpack = guard_find("slurm_cred_unpack");
    *(void **)&verify = guard_find("slurm_cred_verify");
    *(void **)&memory_on = guard_find("slurm_cred_get_mem");
}
