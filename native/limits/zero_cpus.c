/* Keeps slurmctld from planning a job whose tasks have no CPU each: it would divide by that number.
 *
 * Where a partition has MaxMemPerCPU, a job may ask for more memory than that for each CPU. slurmctld (26.05,
 * _valid_pn_min_mem) then gives its tasks more CPUs, and multiplies their number in 16 bits. So any user chooses a
 * memory for which it becomes 0, with `sbatch --mem-per-cpu` or by an update of his job. All plans for nodes go through
 * the function below, and each dimension of a topology comes after it. Such a job is told that no node fits it. */
#include "message_guard.h"
#include "slurm_functions.h"

static int (*real_nodes)(struct plan *);

int topology_g_eval_nodes(struct plan *plan) {
    return plan->tasks && !plan->tasks->cpus_per_task ? REFUSED : real_nodes(plan);
}

void zero_cpus_find(void) {
    *(void **)&real_nodes = guard_find("topology_g_eval_nodes");
}
