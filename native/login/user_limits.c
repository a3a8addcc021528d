#include "user_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static int write_text(struct jail *jail, const char *folder, const char *file, const char *text) {
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, file) >= sizeof(path))
        return jail_fail(jail, "%s/%s is too long a path", folder, file);
    int out = open(path, O_WRONLY | O_CLOEXEC);
    if (out < 0)
        return jail_fail_errno(jail, path);
    size_t length = strlen(text);
    int failed = write(out, text, length) != (ssize_t)length ? jail_fail_errno(jail, path) : 0;
    close(out);
    return failed;
}

static int open_group(struct jail *jail, char *group, size_t size, const char *folder, uid_t uid) {
    if ((size_t)snprintf(group, size, "%s/%u", folder, (unsigned)uid) >= size)
        return jail_fail(jail, "%s is too long a path", folder);
    if (mkdir(group, 0755) && errno != EEXIST)
        return jail_fail_errno(jail, group);
    return 0;
}

/* Joins the group after its limits are set, so that nobody is in it without them. */
static int join(struct jail *jail, const char *group) {
    char process[16];
    snprintf(process, sizeof(process), "%d", (int)getpid());
    return *group ? write_text(jail, group, "cgroup.procs", process) : 0;
}

static int set_rlimit(struct jail *jail, const char *name, const char *value) {
    char *end;
    unsigned long long number = strtoull(value, &end, 10);
    struct rlimit limit = {.rlim_cur = number, .rlim_max = number};
    int is_memory = !strcmp(name, "as"), is_processes = !strcmp(name, "nproc");
    if (*end || end == value || !(is_memory || is_processes))
        return jail_fail(jail, "a rule of limits that nobody knows: rlimit %s %s", name, value);
    if (setrlimit(is_memory ? RLIMIT_AS : RLIMIT_NPROC, &limit))
        return jail_fail_errno(jail, "limit a process");
    return 0;
}

static int apply_line(struct jail *jail, char *line, char *group, size_t size, uid_t uid) {
    char *rest = NULL;
    const char *word = strtok_r(line, " ", &rest);
    const char *name = strtok_r(NULL, " ", &rest);
    if (!word || !name)
        return jail_fail(jail, "a rule of limits without a name");
    if (!strcmp(word, "group"))
        return join(jail, group) || open_group(jail, group, size, name, uid) ? -1 : 0;
    if (!strcmp(word, "set") && *group && rest && *rest)
        return write_text(jail, group, name, rest);
    if (!strcmp(word, "rlimit") && rest)
        return set_rlimit(jail, name, rest);
    return jail_fail(jail, "a rule of limits that nobody knows: %s %s", word, name);
}

int user_limits_apply(struct jail *jail, const char *rules, uid_t uid) {
    char line[PATH_MAX + 64], group[PATH_MAX] = "";
    int failed = 0;
    FILE *file = fopen(rules, "re");
    if (!file)
        return jail_fail_errno(jail, rules);
    while (!failed && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        failed = apply_line(jail, line, group, sizeof(group), uid);
    }
    if (!failed && ferror(file))
        failed = jail_fail_errno(jail, rules);
    fclose(file);
    return failed ? -1 : join(jail, group);
}
