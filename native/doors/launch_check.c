/* Tells whether slurmd finds its part of a launch. slurmd (26.05, _check_job_credential) uses a node's place in the
 * list of nodes as its index into the message's arrays. It does so before it checks the credential, so a list longer
 * than the arrays leads it past their ends. Both lengths are known only once the whole body is read: the child that
 * reads a user's launch first asks here. The list stands behind the launch's options, the counts before its
 * credential.
 */
#include "body_reader.h"

#include <string.h>

#define NO_VALUE 0xfffffffeU        /* NO_VAL */
#define WITH_TASK_COUNTS (43U << 8) /* SLURM_25_05_PROTOCOL_VERSION: no text before the list of nodes from here on. */

int job_options_unpack(void *options, void *buffer);

static int (*real_options)(void *, void *);
static void *(*hosts_of)(const char *);
static int (*count_of)(void *);
static void (*forget)(void *);
static struct {
    bool is_looking, is_sound, fits;
    uint16_t version;
    uint32_t nodes;
} launch;

static void skip_heterogeneous(struct reader *reader, uint16_t version) {
    take(reader, 4 + 4);
    uint32_t nodes = number(reader);
    for (uint32_t i = 0; nodes != NO_VALUE && i < nodes && !reader->failed; i++)
        skip_array(reader, 4);
    uint32_t tasks = number(reader);
    if (tasks != NO_VALUE)
        take(reader, tasks * (uint64_t)4);
    uint32_t offset = number(reader), steps = number(reader);
    if (offset < NO_VALUE && steps > 0 && version >= WITH_TASK_COUNTS)
        skip_array(reader, 4);
    take(reader, 4);
    skip_array(reader, 1);
}

/* Each count of CPUs holds for this many nodes; slurmd expects both arrays to have one length. */
static uint32_t nodes_with_cpus(struct reader *reader, uint32_t nodes) {
    uint32_t counts = skip_array(reader, 2), repeats = number(reader);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < repeats && !reader->failed; i++)
        sum += number(reader);
    if (counts != repeats)
        reader->failed = true;
    return counts && sum < nodes ? (uint32_t)sum : nodes;
}

void launch_begin(const void *buffer, uint16_t version) {
    struct reader reader = reader_of(buffer);
    take(&reader, STEP_ID);
    skip_array(&reader, 4);
    skip_heterogeneous(&reader, version);
    take(&reader, 4 + 4 + 4 * 2 + 2 * 8);
    launch.nodes = number(&reader);
    take(&reader, 2);
    launch.nodes = nodes_with_cpus(&reader, launch.nodes);
    launch.version = version;
    launch.is_sound = !reader.failed;
    launch.is_looking = true;
    credential_begin();
}

static bool lists_too_many(const void *buffer) {
    struct reader reader = reader_of(buffer);
    if (launch.version < WITH_TASK_COUNTS)
        skip_array(&reader, 1);
    uint32_t size = number(&reader);
    const char *list = (const char *)take(&reader, size);
    if (!size || !list || list[size - 1] != '\0')
        return false; /* Slurm reads none, or fails. */
    void *hosts = hosts_of(list);
    int count = hosts ? count_of(hosts) : 0;
    if (hosts)
        forget(hosts);
    return count < 0 || (uint32_t)count > launch.nodes;
}

int job_options_unpack(void *options, void *buffer) {
    int failed = real_options(options, buffer);
    if (launch.is_looking && !failed)
        launch.fits = launch.is_sound && !lists_too_many(buffer);
    return failed;
}

enum launch_verdict launch_judge(bool is_read) {
    if (!is_read)
        return FITS;
    return launch.fits ? credential_judge() : TOO_MANY_NODES;
}

void launch_find(void) {
    *(void **)&real_options = guard_find("job_options_unpack");
    *(void **)&hosts_of = guard_find("slurm_hostlist_create");
    *(void **)&count_of = guard_find("slurm_hostlist_count");
    *(void **)&forget = guard_find("slurm_hostlist_destroy");
}
