#include "job_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1ULL << 20)
/* Slurm's limits are whole MiB. The odd page says that this one has been raised, and each step's start makes it Slurm's
 * again (task/cgroup). */
#define SPARE (32 * MIB + 4096)
#define LEAF "/slurm" /* of slurmstepd in its step's group, which is in the job's */

/* The job's group, or an empty string where slurmstepd is in none of version 2. */
static int find_group(struct jail *jail, char *group, size_t size) {
    char line[PATH_MAX];
    FILE *own = fopen(JOB_LIMITS_OWN_GROUP, "re");
    *group = '\0';
    if (!own)
        return jail_fail_errno(jail, JOB_LIMITS_OWN_GROUP);
    while (fgets(line, sizeof(line), own)) {
        line[strcspn(line, "\n")] = '\0';
        size_t length = strlen(line), leaf = strlen(LEAF);
        if (strncmp(line, "0::", 3) != 0 || length < leaf || strcmp(line + length - leaf, LEAF) != 0)
            continue;
        line[length - leaf] = '\0';
        char *step = strrchr(line, '/');
        if (step)
            *step = '\0';
        if ((size_t)snprintf(group, size, JOB_LIMITS_GROUPS "%s", line + 3) >= size)
            *group = '\0';
    }
    fclose(own);
    return 0;
}

static int set(struct jail *jail, const char *group, const char *file, const char *value) {
    char path[PATH_MAX + 16];
    snprintf(path, sizeof(path), "%s/%s", group, file);
    int out = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (out < 0)
        return jail_fail_errno(jail, path);
    int failed = write(out, value, strlen(value)) != (ssize_t)strlen(value) ? jail_fail_errno(jail, path) : 0;
    close(out);
    return failed;
}

/* The number in a group's file, or 0 where there is none: no such file, or "max". */
static unsigned long long limit_of(const char *group, const char *file) {
    char path[PATH_MAX + 16];
    char limit[32] = "";
    snprintf(path, sizeof(path), "%s/%s", group, file);
    FILE *open_file = fopen(path, "re");
    if (!open_file)
        return 0;
    bool is_read = fgets(limit, sizeof(limit), open_file);
    fclose(open_file);
    return is_read ? strtoull(limit, NULL, 10) : 0;
}

static int set_memory(struct jail *jail, const char *job) {
    char raised[32];
    unsigned long long limit = limit_of(job, "memory.max");
    if (limit == 0 || limit % MIB)
        return 0;
    snprintf(raised, sizeof(raised), "%llu", limit + SPARE);
    /* Above memory.high the kernel would delay slurmstepd, up to two seconds for each thing that it does. */
    return set(jail, job, "memory.max", raised) || set(jail, job, "memory.high", "max") ? -1 : 0;
}

/* A job that began before slurmd had the controller of processes (EnableExtraControllers) keeps no limit of its own. */
static int set_processes(struct jail *jail, const char *job) {
    char path[PATH_MAX + 16], all_jobs[PATH_MAX + 8], half[32];
    snprintf(path, sizeof(path), "%s/pids.max", job);
    snprintf(all_jobs, sizeof(all_jobs), "%s/../..", job); /* above slurmstepd's scope */
    unsigned long long limit = limit_of(all_jobs, "pids.max");
    if (limit < 2 || access(path, F_OK))
        return 0;
    snprintf(half, sizeof(half), "%llu", limit / 2);
    return set(jail, job, "pids.max", half);
}

int job_limits_set(struct jail *jail) {
    char job[PATH_MAX];
    if (find_group(jail, job, sizeof(job)))
        return -1;
    return *job && (set_memory(jail, job) || set_processes(jail, job)) ? -1 : 0;
}
