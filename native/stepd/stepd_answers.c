/* slurmstepd reads of an answer what it can have asked for (doors/answer_guard.c). It believes slurmctld's own, and
 * what its node's slurmd says of GPUs' energy. What else slurmd and slurmstepd say to each other comes another way. */
#include "message_guard.h"
#include "slurm_functions.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static __thread bool is_asking, is_a_daemons;
static __thread uint16_t type;

/* Slurm's own function; without one slurmstepd can't go on. */
static void *find(const char *name) {
    void *function = dlsym(RTLD_NEXT, name);
    if (function)
        return function;
    fprintf(stderr, "fatal: stepd_guard: this Slurm has no %s\n", name);
    _exit(EXIT_FAILURE);
}

int slurm_send_recv_controller_msg(void *request, void *answer, void *cluster) {
    int (*real)(void *, void *, void *) = NULL;
    *(void **)&real = find("slurm_send_recv_controller_msg");
    is_a_daemons = true;
    int failed = real(request, answer, cluster);
    is_a_daemons = false;
    return failed;
}

/* The plugin acct_gather_energy/gpu asks slurmd at the address of its own node. */
int slurm_get_node_energy(char *host, uint16_t context, uint16_t seconds, uint16_t *count, void *energy) {
    int (*real)(char *, uint16_t, uint16_t, uint16_t *, void *) = NULL;
    *(void **)&real = find("slurm_get_node_energy");
    is_a_daemons = true;
    int failed = real(host, context, seconds, count, energy);
    is_a_daemons = false;
    return failed;
}

int slurm_receive_msg(void *connection, void *message, int timeout) {
    int (*real)(void *, void *, int) = NULL;
    *(void **)&real = find("slurm_receive_msg");
    is_asking = !is_a_daemons;
    int failed = real(connection, message, timeout);
    is_asking = false;
    return failed;
}

void *slurm_receive_msgs(void *connection, int steps, int timeout) {
    void *(*real)(void *, int, int) = NULL;
    *(void **)&real = find("slurm_receive_msgs");
    is_asking = !is_a_daemons;
    void *answers = real(connection, steps, timeout);
    is_asking = false;
    return answers;
}

int unpack_header(struct header *header, void *buffer) {
    int (*real)(struct header *, void *) = NULL;
    *(void **)&real = find("unpack_header");
    if (is_asking && !answer_is_bare(buffer, ((const struct buffer *)buffer)->read))
        return REFUSED;
    int failed = real(header, buffer);
    type = header->type;
    return failed;
}

int unpack_msg(void *message, void *buffer) {
    int (*real)(void *, void *) = NULL;
    const char *(*name_of)(unsigned) = NULL;
    *(void **)&real = find("unpack_msg");
    *(void **)&name_of = find("rpc_num2string");
    if (!is_asking || answer_is_expected(name_of(type)))
        return real(message, buffer);
    fprintf(stderr, "error: refused the answer %s\n", name_of(type));
    return REFUSED;
}
