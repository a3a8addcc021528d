/* Bounds how many steps of a job slurmctld wakes.
 *
 * It keeps a record of each step that waits, with its texts, and wakes its srun when another step ends. It wakes all
 * that have waited for a minute, at once, and MaxStepCount counts none of them. So any user could fill its memory, and
 * keep its threads from the nodes by sruns that are not there. Beyond the bound, in which steps that run count, it
 * keeps no record. Such a step's srun asks again by itself, as it does where slurmctld was started anew. */
#include "message_guard.h"
#include "slurm_functions.h"

#include <stddef.h>

#ifndef MOST_WAITING
#define MOST_WAITING 256
#endif
#define OF_A_RECORD 0 /* The version of steps that wait, and of a job's batch and extern step, which come first. */

static void *(*real_step)(void *, uint16_t);
static int (*count_of)(void *);
static int (*delete_from)(void *, void *);
static __thread struct {
    bool is_new;
    void *steps;
} step;

void waiting_steps_see(void *list) {
    if (step.is_new)
        step.steps = list;
}

void *create_step_record(void *job, uint16_t version) {
    step.is_new = guard_is_controller() && version == OF_A_RECORD;
    step.steps = NULL;
    void *record = real_step(job, version);
    step.is_new = false;
    if (!record || !step.steps || count_of(step.steps) <= MOST_WAITING)
        return record;
    delete_from(step.steps, record);
    return NULL;
}

void waiting_steps_find(void) {
    *(void **)&real_step = guard_find("create_step_record");
    *(void **)&count_of = guard_find("list_count");
    *(void **)&delete_from = guard_find("list_delete_ptr");
}
