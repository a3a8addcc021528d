/* Bounds the lists of nodes that users write. Slurm (26.05) makes each name of a list before it looks for the node,
 * under slurmctld's locks. It logs each that is none. x[0-65535][0-65535] would keep slurmctld busy for hours. More
 * than 262,144 numbers in one pair of brackets end it. A daemon takes a list of more names than a cluster has nodes for
 * one that is none. The same holds if a range has longer names than a node can have: Slurm keeps each of them. */
#include "message_guard.h"
#include "slurm_functions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 65536  /* MAX_SLURM_NODES */
#define LONGEST 255 /* NI_MAXHOST has room for more, the DNS has not. */
#define SEPARATORS "\t, \n"

static void *(*real_create)(const char *);
static void *(*real_create_dims)(const char *, int);

/* Counts numbers such as 0-7,9 up to a closing bracket, and leaves `at` behind it. Adds to `name` as many characters as
 * one of them may have. */
static uint64_t numbers_in_brackets(const char **at, size_t *name) {
    size_t longest = 0;
    for (uint64_t count = 0;;) {
        size_t length = strcspn(*at, ",[]");
        const char *dash = memchr(*at, '-', length);
        unsigned long first = strtoul(*at, NULL, 10), last = dash ? strtoul(dash + 1, NULL, 10) : first;
        count += 1 + (last <= first ? 0 : last - first < MOST ? last - first : MOST);
        *at += length;
        if (length > longest)
            longest = length;
        if (**at != ',' && **at != ']')
            return MOST + 1;
        if (*(*at)++ == ']') {
            *name += longest;
            return count;
        }
    }
}

/* Brackets without their other half, or in brackets, are in no node's name. Slurm reads on behind them. */
static bool is_too_long(const char *list) {
    uint64_t names = 0, of_word = 1;
    size_t name = 0;
    for (const char *at = list; *at && of_word <= MOST;) {
        char next = *at++;
        if (next == '[') {
            of_word *= numbers_in_brackets(&at, &name);
        } else if (next == ']') {
            of_word = MOST + 1;
        } else if (strchr(SEPARATORS, next)) {
            names += of_word;
            of_word = 1;
            name = 0;
        } else {
            name++;
        }
        if (of_word > 1 && name > LONGEST)
            return true;
    }
    return names + of_word > MOST;
}

static bool is_refused(const char *list) {
    if (!list || guard_is_client() || !is_too_long(list))
        return false;
    fprintf(stderr, "error: refused a list of nodes: it is malformed, or has more than %d\n", MOST);
    errno = EINVAL;
    return true;
}

void *hostlist_create(const char *list) {
    return is_refused(list) ? NULL : real_create(list);
}

void *hostlist_create_dims(const char *list, int dimensions) {
    return is_refused(list) ? NULL : real_create_dims(list, dimensions);
}

void hostlist_find_real(void) {
    *(void **)&real_create = guard_find("hostlist_create");
    *(void **)&real_create_dims = guard_find("hostlist_create_dims");
}
