/* Refuses requests for steps by whose numbers slurmctld (26.05) divides by zero, and ends: no threads of each core
 * (_pick_step_cores), or more nodes than an int has. The same holds for no number of tasks without one of CPUs for a
 * task (_set_max_num_tasks). So many CPUs that it gets no memory for them end it, too. Slurm's commands send none of
 * these. Refuses long ones: slurmctld keeps a step's texts while it runs or waits, and bounds few of them. */
#include "body_reader.h"

#include <stdlib.h>
#include <string.h>

#ifndef STEP_BYTES
#define STEP_BYTES ((size_t)1 << 20)
#endif
#define NO_VALUE 0xfffffffeU           /* NO_VAL */
#define WITH_CONTAINER_TYPE (45U << 8) /* SLURM_26_05_PROTOCOL_VERSION */
#define WITH_PATHS (43U << 8)          /* SLURM_25_05_PROTOCOL_VERSION: the folder, and three files. */
#define TO_NODES 12                    /* The array's task, the user, and how many nodes at least. */
#define MOST_NODES 65536
#define MOST_CPUS (MOST_NODES * 256U)
#define FREQUENCIES 12
#define TO_THREADS 12               /* Memory and time. */
#define TO_FLAGS 20                 /* From tasks for a core to srun's own number. */
#define EXTERNAL_LAUNCHER (1U << 8) /* SSF_EXT_LAUNCHER: has no tasks. */

static void skip_texts(struct reader *reader, int count) {
    for (; count > 0; count--)
        skip_array(reader, 1);
}

/* As slurmctld reads them (_calc_cpus_per_task). */
static bool has_cpus(const char *per_task, uint32_t size) {
    if (!size || !per_task || per_task[size - 1] != '\0')
        return false;
    const char *cpus = strstr(per_task, "cpu:");
    return cpus && (int)strtoul(cpus + strlen("cpu:"), NULL, 10) > 0;
}

const char *step_fault(const void *buffer, uint16_t version) {
    struct reader reader = reader_of(buffer);
    if (reader.left > STEP_BYTES)
        return "a step whose command line and paths are longer than 1 MiB";
    take(&reader, STEP_ID + TO_NODES);
    uint32_t nodes = number(&reader);
    skip_texts(&reader, version >= WITH_CONTAINER_TYPE ? 3 : 2);
    uint32_t cpus = number(&reader);
    take(&reader, FREQUENCIES);
    uint32_t tasks = number(&reader);
    take(&reader, TO_THREADS);
    const unsigned char *threads = take(&reader, 2);
    take(&reader, TO_FLAGS);
    bool has_tasks = !(number(&reader) & EXTERNAL_LAUNCHER);
    skip_texts(&reader, 6);
    take(&reader, 4);
    skip_texts(&reader, 3);
    take(&reader, 2);
    skip_texts(&reader, (version >= WITH_PATHS ? 4 : 0) + 6);
    uint32_t size = number(&reader);
    const char *per_task = (const char *)take(&reader, size);
    if (reader.failed)
        return NULL; /* Slurm can't read it, either. */
    if (nodes > MOST_NODES)
        return "a step on more than 65536 nodes";
    if (cpus > MOST_CPUS && !(cpus == NO_VALUE && tasks == NO_VALUE)) /* srun -c alone sends both. */
        return "a step with more CPUs than a cluster has";
    if (!threads[0] && !threads[1])
        return "a step with no threads for a core";
    bool is_unknown = has_tasks && tasks == NO_VALUE && !has_cpus(per_task, size);
    return is_unknown ? "a step with no number of tasks, nor of CPUs" : NULL;
}
