/* Keeps slurmctld from waiting for a user's srun or salloc that is not there.
 *
 * A user says where they listen, and slurmctld tells them what becomes of their jobs and steps. It waits for each
 * connection for TCPTimeout, in fifty threads. Those send to nodes, too, in their turn: three thousand steps at an
 * address that is silent kept all nodes from new jobs for minutes. Here slurmctld waits for a moment. */
#include "message_guard.h"
#include "slurm_functions.h"

#include <poll.h>

#ifndef CLIENT_MILLISECONDS
#define CLIENT_MILLISECONDS 250
#endif
#define ANYBODY NOBODY    /* SLURM_AUTH_UID_ANY, of what goes to nodes. */
#define SLURMS_NOBODY 99U /* SLURM_AUTH_NOBODY */

static int (*real_send)(struct to_send *);
static int (*real_poll)(struct pollfd *, nfds_t, int);
static __thread bool is_for_a_user;

int slurm_send_only_node_msg(struct to_send *message) {
    uid_t reader = message->is_for_one ? message->reader : ANYBODY;
    bool is_for_slurm = !reader || reader == SLURM_ID || reader == ANYBODY || reader == SLURMS_NOBODY;
    is_for_a_user = guard_is_controller() && !is_for_slurm;
    int failed = real_send(message);
    is_for_a_user = false;
    return failed;
}

int poll(struct pollfd *fds, nfds_t nfds, int timeout) {
    bool is_long = timeout < 0 || timeout > CLIENT_MILLISECONDS;
    return real_poll(fds, nfds, is_for_a_user && is_long ? CLIENT_MILLISECONDS : timeout);
}

void clients_find(void) {
    *(void **)&real_send = guard_find("slurm_send_only_node_msg");
    *(void **)&real_poll = guard_find("poll");
}
