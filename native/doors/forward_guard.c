/* slurmd passes no message on to other nodes. Slurm's own does, for whoever says so in a message's head, before it
 * looks for a token (26.05, slurm_unpack_msg_and_forward). A tree without depth, or a list of nodes that is none, then
 * ends slurmd. A long list has it start as many threads. By TreeWidth slurmctld and Slurm's commands speak to each node
 * themselves. */
#include "contract.h"
#include "message_guard.h"
#include "slurm_functions.h"

#define FURTHER_NODES 10 /* Their number stands behind version, flags, type and length (pack_header). */

static int (*real_split)(void *, void ***, int *, uint16_t);

bool forward_is_asked(const void *buffer, uint32_t begin) {
    const struct buffer *whole = buffer;
    uint64_t at = (uint64_t)begin + FURTHER_NODES;
    return at + 2 <= whole->size && (whole->data[at] || whole->data[at + 1]);
}

/* `srun --treewidth=2` would ask nodes to pass its launch on. Commands split by this function (start_msg_tree). */
int hostlist_split_treewidth(void *hosts, void ***parts, int *count, uint16_t width) {
    return real_split(hosts, parts, count, guard_is_client() ? TREE_WIDTH : width);
}

void forward_find(void) {
    *(void **)&real_split = guard_find("hostlist_split_treewidth");
}
