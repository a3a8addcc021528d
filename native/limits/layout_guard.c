/* Keeps slurmctld from adding up more tasks of a step's components than it can count.
 *
 * A user may ask where a step's tasks are. slurmctld (26.05, stepmgr_get_step_layouts) adds up the components of a
 * heterogeneous step, and counts a node's tasks with 16 bits. So it writes beyond its memory if they are more. A user
 * chooses how many components his step has. What is too much is left out of the answer, which sattach alone asks for.
 */
#include "message_guard.h"
#include "slurm_functions.h"

#include <stdio.h>

static void (*real_merge)(struct layout *, struct layout *);

void slurm_step_layout_merge(struct layout *sum, struct layout *other) {
    if ((uint64_t)sum->tasks + other->tasks > UINT16_MAX)
        fputs("error: left out the tasks of a step's component: they are more than 65535\n", stderr);
    else
        real_merge(sum, other);
}

void layout_find(void) {
    *(void **)&real_merge = guard_find("slurm_step_layout_merge");
}
