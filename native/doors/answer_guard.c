/* Bounds the answers that slurmctld and slurmstepd read. Both ask a user's own srun, at an address that he names. Slurm
 * (26.05) reads an answer of any type there, without a token: some two hundred parsers of a privileged process, as in
 * message_guard.c. */
#include "message_guard.h"

#include <string.h>

#define FURTHER_NODES 10 /* Behind version, flags, type and length (pack_header): further nodes, and their results. */
#define BARE 4

/* Nodes and srun answer so to slurmctld, and srun to slurmstepd. tests/witness/messages/rpcs.py says who asks for
 * which. */
static const char *const expected[] = {"RESPONSE_SLURM_RC", "RESPONSE_PING_SLURMD", "RESPONSE_ACCT_GATHER_UPDATE"};

bool answer_is_expected(const char *type) {
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        if (!strcmp(type, expected[i]))
            return true;
    return false;
}

/* Nobody passes a message on here (forward_guard.c), so nobody brings results of further nodes, which are messages. */
bool answer_is_bare(const void *buffer, uint32_t begin) {
    static const unsigned char none[BARE];
    const struct buffer *whole = buffer;
    uint64_t at = (uint64_t)begin + FURTHER_NODES;
    return at + BARE > whole->size || !memcmp(whole->data + at, none, BARE);
}
