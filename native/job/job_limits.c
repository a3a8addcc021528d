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
/* The most threads of a job's slurmstepds together. */
#define THREADS 64
/* The group of slurmstepd. It lies in its step's group, and that in the job's. */
#define LEAF "/slurm"

struct groups {
    char job[PATH_MAX];
    char step[PATH_MAX];
};

/* The groups of slurmstepd's job and step, or empty strings where it is in none of version 2. */
static int find_groups(struct jail *jail, struct groups *groups) {
    char line[PATH_MAX];
    FILE *own = fopen(JOB_LIMITS_OWN_GROUP, "re");
    groups->job[0] = groups->step[0] = '\0';
    if (!own)
        return jail_fail_errno(jail, JOB_LIMITS_OWN_GROUP);
    while (fgets(line, sizeof(line), own)) {
        line[strcspn(line, "\n")] = '\0';
        size_t length = strlen(line), leaf = strlen(LEAF);
        if (strncmp(line, "0::", 3) != 0 || length < leaf || strcmp(line + length - leaf, LEAF) != 0)
            continue;
        line[length - leaf] = '\0';
        if (strchr(line + strlen("0::"), '/') == strrchr(line, '/')) /* a step's group is in its job's */
            continue;
        if ((size_t)snprintf(groups->step, PATH_MAX, JOB_LIMITS_GROUPS "%s", line + 3) >= PATH_MAX)
            continue;
        memcpy(groups->job, groups->step, PATH_MAX);
        *strrchr(groups->job, '/') = '\0';
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

/* Without such a file there is nothing to set: slurmd had no controller of processes (EnableExtraControllers) when the
 * job began. */
static int set_processes_of(struct jail *jail, const char *group, unsigned long long most) {
    char path[PATH_MAX + 16], text[32];
    snprintf(path, sizeof(path), "%s/pids.max", group);
    snprintf(text, sizeof(text), "%llu", most);
    return access(path, F_OK) ? 0 : set(jail, group, "pids.max", text);
}

static int set_processes(struct jail *jail, const struct groups *groups) {
    char all_jobs[PATH_MAX + 8], tasks[PATH_MAX + 8];
    snprintf(all_jobs, sizeof(all_jobs), "%s/../..", groups->job); /* above slurmstepd's scope */
    snprintf(tasks, sizeof(tasks), "%s/user", groups->step);
    unsigned long long half = limit_of(all_jobs, "pids.max") / 2;
    if (half == 0)
        return 0;
    return set_processes_of(jail, tasks, half) || set_processes_of(jail, groups->job, half + THREADS) ? -1 : 0;
}

int job_limits_set(struct jail *jail) {
    struct groups groups;
    /* On version 1 Slurm's limits are on the tasks' own groups, where slurmstepd is not. */
    if (access(JOB_LIMITS_GROUPS "/cgroup.controllers", F_OK))
        return errno == ENOENT ? 0 : jail_fail_errno(jail, JOB_LIMITS_GROUPS);
    if (find_groups(jail, &groups))
        return -1;
    return *groups.job && (set_memory(jail, groups.job) || set_processes(jail, &groups)) ? -1 : 0;
}
