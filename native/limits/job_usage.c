/* Has slurmdbd take from users no other resources for their finished jobs.
 *
 * Slurm lets a user change what his own jobs had (`sacctmgr modify job … set NewTRES=…`). So he paid for nothing, and
 * slurmdbd summed up all usage since that job anew, however old it was. His own words about a job stay his. */
#include "message_guard.h"

#include <errno.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurmdb.h>
#include <stdio.h>

void *acct_storage_g_modify_job(void *database, uint32_t user, slurmdb_job_cond_t *jobs, slurmdb_job_rec_t *change);

static void *(*real_modify)(void *, uint32_t, slurmdb_job_cond_t *, slurmdb_job_rec_t *);
static slurmdb_admin_level_t (*level_of)(void *, uint32_t);

void *acct_storage_g_modify_job(void *database, uint32_t user, slurmdb_job_cond_t *jobs, slurmdb_job_rec_t *change) {
    bool is_slurm = !user || user == SLURM_ID;
    if (!guard_is_database() || is_slurm || !change || !change->tres_alloc_str ||
        level_of(database, user) >= SLURMDB_ADMIN_OPERATOR)
        return real_modify(database, user, jobs, change);
    fprintf(stderr, "error: refused to change a job's resources for uid %u\n", user);
    errno = ESLURM_ACCESS_DENIED;
    return NULL;
}

void usage_find(void) {
    *(void **)&real_modify = guard_find("acct_storage_g_modify_job");
    *(void **)&level_of = guard_find("assoc_mgr_get_admin_level");
}
