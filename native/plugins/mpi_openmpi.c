/* An MPI plugin that does nothing, under a name that Slurm itself takes for "none" (interfaces/mpi.c, _is_none_plugin).
 *
 * slurmctld and slurmd do not start without any. The image has no other that users may name: slurmstepd would load it
 * as root, before the tasks (docs/adr/0022). */
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stddef.h>
#include <stdint.h>

const char plugin_name[] = "no help for MPI";
const char plugin_type[] = "mpi/openmpi";
const uint32_t plugin_version = SLURM_VERSION_NUMBER;
const uint32_t plugin_id = 100; /* of none of Slurm's */

/* Records of Slurm's that no public header has. */
void *mpi_p_client_prelaunch(const void *step, char ***environment);
int mpi_p_client_fini(void *state);
void *mpi_p_conf_get(void);
void *mpi_p_conf_get_printable(void);
void mpi_p_conf_options(void **options, const int *count);
void mpi_p_conf_set(void *table);
int mpi_p_slurmstepd_prefork(const void *step, char ***environment);
int mpi_p_slurmstepd_task(const void *task, char ***environment);

/* NULL would be a failure. */
void *mpi_p_client_prelaunch(const void *step, char ***environment) {
    static char state;
    (void)step, (void)environment;
    return &state;
}

int mpi_p_client_fini(void *state) {
    (void)state;
    return SLURM_SUCCESS;
}

void *mpi_p_conf_get(void) {
    return NULL;
}

void *mpi_p_conf_get_printable(void) {
    return NULL;
}

void mpi_p_conf_options(void **options, const int *count) {
    (void)options, (void)count;
}

void mpi_p_conf_set(void *table) {
    (void)table;
}

int mpi_p_slurmstepd_prefork(const void *step, char ***environment) {
    (void)step, (void)environment;
    return SLURM_SUCCESS;
}

int mpi_p_slurmstepd_task(const void *task, char ***environment) {
    (void)task, (void)environment;
    return SLURM_SUCCESS;
}
