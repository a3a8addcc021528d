#include "job_memory.h"

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
    FILE *own = fopen(JOB_MEMORY_OWN_GROUP, "re");
    *group = '\0';
    if (!own)
        return jail_fail_errno(jail, JOB_MEMORY_OWN_GROUP);
    while (fgets(line, sizeof(line), own)) {
        line[strcspn(line, "\n")] = '\0';
        size_t length = strlen(line), leaf = strlen(LEAF);
        if (strncmp(line, "0::", 3) != 0 || length < leaf || strcmp(line + length - leaf, LEAF) != 0)
            continue;
        line[length - leaf] = '\0';
        char *step = strrchr(line, '/');
        if (step)
            *step = '\0';
        if ((size_t)snprintf(group, size, JOB_MEMORY_GROUPS "%s", line + 3) >= size)
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

/* The limit in bytes, or 0 where there is none. */
static unsigned long long limit_of(const char *group) {
    char path[PATH_MAX + 16];
    char limit[32] = "";
    snprintf(path, sizeof(path), "%s/memory.max", group);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    bool is_read = fgets(limit, sizeof(limit), file);
    fclose(file);
    return is_read ? strtoull(limit, NULL, 10) : 0; /* "max" is no number */
}

int job_memory_spare(struct jail *jail) {
    char group[PATH_MAX], raised[32];
    if (find_group(jail, group, sizeof(group)))
        return -1;
    unsigned long long limit = *group ? limit_of(group) : 0;
    if (limit == 0 || limit % MIB)
        return 0;
    snprintf(raised, sizeof(raised), "%llu", limit + SPARE);
    /* Above memory.high the kernel would delay slurmstepd, up to two seconds for each thing that it does. */
    return set(jail, group, "memory.max", raised) || set(jail, group, "memory.high", "max") ? -1 : 0;
}
