/* Stands for libslurmfull's lists of jobs, and for accounting's, behind message_guard.so: "components:COUNT:SIZE" is a
 * heterogeneous job, each component of which requires nodes with so many characters. */
#include <slurm/slurm.h>
#include <slurm/slurmdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 1024
#define OPERATOR 1001

void list_append(void *list, void *item);
bool read_components(const char *reading);
void *acct_storage_g_modify_job(void *database, uint32_t user, slurmdb_job_cond_t *jobs, slurmdb_job_rec_t *change);
slurmdb_admin_level_t assoc_mgr_get_admin_level(void *database, uint32_t user);
bool change_job(uint32_t user, const char *what);

static const job_desc_msg_t *jobs[MOST];
static size_t appended, freed;

void list_append(void *list, void *item) {
    (void)list;
    jobs[appended++] = item;
}

void *acct_storage_g_modify_job(void *database, uint32_t user, slurmdb_job_cond_t *jobs, slurmdb_job_rec_t *change) {
    (void)database;
    (void)user;
    (void)jobs;
    return change;
}

slurmdb_admin_level_t assoc_mgr_get_admin_level(void *database, uint32_t user) {
    (void)database;
    return user == OPERATOR ? SLURMDB_ADMIN_OPERATOR : SLURMDB_ADMIN_NONE;
}

bool change_job(uint32_t user, const char *what) {
    static void *(*volatile change)(void *, uint32_t, slurmdb_job_cond_t *, slurmdb_job_rec_t *) =
        acct_storage_g_modify_job;
    char text[] = "1=0";
    slurmdb_job_rec_t job = {.tres_alloc_str = strcmp(what, "resources") ? NULL : text};
    return change(NULL, user, NULL, &job) != NULL;
}

char *slurm_xstrdup(const char *text) {
    return strdup(text);
}

void slurm_free_job_desc_msg(job_desc_msg_t *job) {
    free(job->req_nodes);
    free(job);
    freed++;
}

/* slurmctld refuses a job that requires a node with another name. */
static bool knows(const job_desc_msg_t *job) {
    return !job->req_nodes || !strchr(job->req_nodes, '?');
}

bool read_components(const char *reading) {
    static void (*volatile append)(void *, void *) = list_append;
    char *colon = NULL;
    size_t count = strtoul(strchr(reading, ':') + 1, &colon, 10), size = strtoul(colon + 1, NULL, 10);
    bool is_known = true;
    for (size_t i = 0; i < count; i++) {
        job_desc_msg_t *job = calloc(1, sizeof(*job));
        job->req_nodes = size ? malloc(size + 1) : NULL;
        if (job->req_nodes) {
            memset(job->req_nodes, 'n', size);
            job->req_nodes[size] = '\0';
        }
        append(NULL, job);
    }
    for (size_t i = 0; i < appended; i++)
        is_known &= knows(jobs[i]);
    printf("kept=%zu ", appended);
    return is_known && appended + freed == count;
}
