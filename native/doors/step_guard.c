/* Refuses requests for steps by whose numbers slurmctld (26.05) ends. Slurm's commands send none of these.
 *   - It divides by the threads of a core (_pick_step_cores), and by the nodes (gres_stepmgr_step_test_per_step). It
 *     divides by the CPUs for a task if it counts the tasks itself (_set_max_num_tasks).
 *   - It gets no memory for so many CPUs. It multiplies by GPUs, too, and then counts with 32 bits.
 *   - It keeps the nodes of an external launcher's step as they were listed. It counts a node once that comes twice
 *     (_build_ext_launcher_step). Then it reads beyond its memory (slurm_step_layout_merge). mpirun lists each once, so
 *     the list's own order is dropped.
 *   - It numbers a job's steps onward from the greatest number (create_step_record). It does not start with a job that
 *     has none left.
 *   - It counts a node's tasks with 16 bits, and never ends to place more (_task_layout_plane).
 * Refuses long ones: slurmctld keeps a step's texts while it runs or waits, and bounds few of them.
 * Refuses one whose srun is at a host of another domain: slurmctld would wait for that domain's DNS, under its locks.
 */
#include "body_reader.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#ifndef STEP_BYTES
#define STEP_BYTES ((size_t)1 << 20)
#endif
#define NO_VALUE 0xfffffffeU           /* NO_VAL */
#define NO_SHORT 0xfffeU               /* NO_VAL16 */
#define WITH_CONTAINER_TYPE (45U << 8) /* SLURM_26_05_PROTOCOL_VERSION */
#define WITH_PATHS (43U << 8)          /* SLURM_25_05_PROTOCOL_VERSION: the folder, and three files. */
#define TO_STEP 12                     /* The job's numbers. */
#define TO_NODES 12                    /* The component, the array's task, and the user. */
#define MOST_NODES 65536
#define MOST_CPUS (MOST_NODES * 256U)
#define MOST_PLANE 16384
#define MOST_STEPS 0xf0000000U /* SLURM_MAX_NORMAL_STEP_ID is 0xfffffff0. */
#define FREQUENCIES 12
#define TO_THREADS 12               /* Memory and time. */
#define TO_DISTRIBUTION 4           /* Tasks for a core, and the first node. */
#define TO_FLAGS 10                 /* Ports, whether it waits, and srun's own number. */
#define EXTERNAL_LAUNCHER (1U << 8) /* SSF_EXT_LAUNCHER: has no tasks. */
#define DISTRIBUTION 0xffffU        /* SLURM_DIST_STATE_BASE */
#define BLOCK 1
#define ARBITRARY 3
#define PLANE 4

struct step {
    uint32_t number, least_nodes, nodes, cpus, tasks, threads, distribution, plane, flags, tasks_for_gpu;
    unsigned char *distribution_at;
    const char *host, *node_list, *cpus_for_gpu, *of_step, *of_node, *of_task;
};

static void skip_texts(struct reader *reader, int count) {
    for (; count > 0; count--)
        skip_array(reader, 1);
}

static uint32_t short_number(struct reader *reader) {
    const unsigned char *at = take(reader, 2);
    return at ? (uint32_t)at[0] << 8 | at[1] : 0;
}

static const char *text(struct reader *reader) {
    uint32_t size = number(reader);
    const char *at = (const char *)take(reader, size);
    return at && size && at[size - 1] == '\0' ? at : NULL;
}

static bool read_step(struct reader reader, uint16_t version, struct step *step) {
    take(&reader, TO_STEP);
    step->number = number(&reader);
    take(&reader, TO_NODES);
    step->least_nodes = number(&reader);
    step->nodes = number(&reader);
    skip_texts(&reader, version >= WITH_CONTAINER_TYPE ? 3 : 2);
    step->cpus = number(&reader);
    take(&reader, FREQUENCIES);
    step->tasks = number(&reader);
    take(&reader, TO_THREADS);
    step->threads = short_number(&reader);
    take(&reader, TO_DISTRIBUTION);
    step->distribution_at = (unsigned char *)reader.at;
    step->distribution = number(&reader) & DISTRIBUTION;
    step->plane = short_number(&reader);
    take(&reader, TO_FLAGS);
    step->flags = number(&reader);
    step->host = text(&reader);
    skip_texts(&reader, 2);
    step->node_list = text(&reader);
    skip_texts(&reader, 2);
    take(&reader, 4);
    skip_texts(&reader, 1);
    step->cpus_for_gpu = text(&reader);
    skip_texts(&reader, 1);
    step->tasks_for_gpu = short_number(&reader);
    skip_texts(&reader, (version >= WITH_PATHS ? 4 : 0) + 3);
    step->of_step = text(&reader);
    step->of_node = text(&reader);
    skip_texts(&reader, 1);
    step->of_task = text(&reader);
    return !reader.failed;
}

/* As slurmctld reads them (_calc_cpus_per_task). */
static bool has_cpus(const char *per_task) {
    const char *cpus = per_task ? strstr(per_task, "cpu:") : NULL;
    return cpus && (int)strtoul(cpus + strlen("cpu:"), NULL, 10) > 0;
}

/* srun sends the short name of its machine. */
static bool is_near(const char *host) {
    unsigned char address[sizeof(struct in6_addr)];
    return !strpbrk(host, ".:") || inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

static bool has_a_name(const char *nodes) {
    return nodes[strspn(nodes, ", \t\n")] != '\0';
}

/* 2, 2k and 2KiB are numbers; 1080ti is a type of which one is asked. */
static double number_of(const char *entry, size_t size) {
    const char *number = entry + size;
    while (number > entry && number[-1] != ':' && number[-1] != '=')
        number--;
    char *unit;
    double count = (double)strtoull(number, &unit, 10);
    size_t left = (size_t)(entry + size - unit);
    if (number == entry || unit == number)
        return 1;
    if (!left)
        return count;
    static const char units[] = "kmgtp";
    const char *power = strchr(units, *unit | ' ');
    if (!power || (left > 1 && (left > 3 || (unit[left - 1] | ' ') != 'b')))
        return 1;
    for (ptrdiff_t i = 0; i <= power - units; i++)
        count *= 1024;
    return count;
}

/* Returns how many GPUs a text names, or what else is counted so: at least what slurmctld reads (slurm_get_next_tres).
 */
static double resources(const char *list) {
    double sum = 0;
    while (list && (list = strstr(list, "gres"))) {
        size_t size = strcspn(list, ",");
        sum += number_of(list, size);
        list += size;
    }
    return sum;
}

static double greater(double one, double other) {
    return one > other ? one : other;
}

/* slurmctld multiplies so (gres_step_state_validate). A step that names none takes those of its job: as many for each
 * task and node. */
static bool multiplies_too_much(const struct step *step) {
    double cpus = resources(step->cpus_for_gpu);
    bool has_tasks = step->tasks_for_gpu && step->tasks_for_gpu != NO_SHORT;
    if (cpus == 0 && !has_tasks)
        return false;
    bool counted = step->tasks == NO_VALUE;
    double tasks = counted ? 1 : step->tasks;
    double named = resources(step->of_step) + resources(step->of_node) * step->least_nodes;
    named = greater(named + resources(step->of_task) * tasks, greater(tasks, step->least_nodes));
    if (has_tasks)
        cpus = greater(cpus, step->tasks_for_gpu * (counted ? 1 : greater(1, step->cpus / greater(1, tasks))));
    return named * cpus > MOST_CPUS;
}

static void drop_order(const struct step *step) {
    if ((step->flags & EXTERNAL_LAUNCHER) && step->distribution == ARBITRARY)
        step->distribution_at[3] = BLOCK;
}

const char *step_fault(void *buffer, uint16_t version) {
    struct reader reader = reader_of(buffer);
    if (reader.left > STEP_BYTES)
        return "a step whose command line and paths are longer than 1 MiB";
    struct step step;
    if (!read_step(reader, version, &step))
        return NULL; /* Slurm can't read it, either. */
    if (step.host && !is_near(step.host))
        return "a step whose srun is at neither an address nor a short name";
    if (step.number > MOST_STEPS && step.number != NO_VALUE)
        return "a step with one of the last numbers";
    if (!step.least_nodes || (step.distribution == ARBITRARY && step.node_list && !has_a_name(step.node_list)))
        return "a step on no nodes";
    if (step.nodes > MOST_NODES)
        return "a step on more than 65536 nodes";
    bool counts_tasks = step.tasks == NO_VALUE; /* srun -c without -n: it sends NO_VAL CPUs, too. */
    if (step.cpus > MOST_CPUS && !(counts_tasks && step.cpus == NO_VALUE))
        return "a step with more CPUs than a cluster has";
    if (!step.threads)
        return "a step with no threads for a core";
    if (step.distribution == PLANE && step.plane > MOST_PLANE)
        return "a step with planes of more than 16384 tasks";
    if (multiplies_too_much(&step))
        return "a step with more CPUs or tasks for its GPUs than a cluster has";
    drop_order(&step);
    bool is_unknown = counts_tasks && !(step.flags & EXTERNAL_LAUNCHER) && !has_cpus(step.of_task);
    return is_unknown ? "a step with no number of tasks, nor of CPUs" : NULL;
}
