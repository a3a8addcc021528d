/* Declarations that the files of message_guard.so share. */
#ifndef PULUMI_SLURM_MESSAGE_GUARD_H
#define PULUMI_SLURM_MESSAGE_GUARD_H

#include "contract.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define NOBODY ((uid_t) - 1)
#define REFUSED (-1)      /* SLURM_ERROR */
#define LAUNCH 6001       /* REQUEST_LAUNCH_TASKS */
#define PERSIST_INIT 6500 /* REQUEST_PERSIST_INIT */

/* The first fields of Slurm's buf_t. */
struct buffer {
    uint32_t magic;
    const unsigned char *data;
    uint32_t size, read;
};

#pragma GCC visibility push(hidden)

/* Slurm's function of that name behind ours; this Slurm's programs do not start without it. */
void *guard_find(const char *name);

/* Returns the user whose token the message had that this thread has read last. */
uid_t guard_sender(void);

/* Slurm's own reading of a message's body. */
int guard_read_body(void *message, void *buffer);

/* message_rules.c: true in slurmd, and in a program that is none of Slurm's. */
bool guard_is_node(void);

/* Returns true in slurmdbd. */
bool guard_is_database(void);

bool guard_is_controller(void);

/* Returns true in a command, such as srun, and false in a daemon. */
bool guard_is_client(void);

/* Returns true if this program reads messages of this type from this user. */
bool may_send(uid_t uid, uint16_t type);
void rules_find(void);

/* launch_reader.c: the fault of a user's launch, or NULL. */
const char *launch_fault(void *message, void *buffer, uint16_t version);

enum launch_verdict { FITS, TOO_MANY_NODES, OF_SLURM, OF_OTHERS };

/* launch_check.c: `launch_begin` comes before a child reads a launch, `launch_judge` after it. A launch that slurmd
 * can't read either fits. */
void launch_find(void);
void launch_begin(const void *buffer, uint16_t version);
enum launch_verdict launch_judge(bool is_read);

/* launch_credential.c: the same for the credential in the launch. */
void credential_find(void);
void credential_begin(void);
enum launch_verdict credential_judge(void);

/* step_guard.c: the fault of a request for a step, or NULL. */
const char *step_fault(void *buffer, uint16_t version);

/* components_guard.c: both stand around slurmctld's reading of a user's message. */
void components_begin(const char *type);
void components_end(void);
void components_find(void);

/* forward_guard.c: true if a message whose head begins at this byte is to be passed on to further nodes. */
bool forward_is_asked(const void *buffer, uint32_t begin);
void forward_find(void);

/* answer_guard.c: true if slurmctld or slurmstepd may have asked for an answer of this type. The second says whether an
 * answer brings no others with it; its head begins at that byte. */
bool answer_is_expected(const char *type);
bool answer_is_bare(const void *buffer, uint32_t begin);

/* client_guard.c: true if the connection came to a command's port. */
bool client_has_accepted(void *connection);

/* Has Slurm receive what came there, and waits for no stranger for long. */
int client_receive(void *connection, void *message, int (*receive)(void *, void *, int));

/* Has a command that waits for its allocation wait on; returns 0. */
int client_waits_on(void *message);
void client_find(void);

/* connection_guard.c: true if the descriptor's connection came to a port of this program. */
bool connection_was_accepted(int file);

/* True if no message of the connection came before. */
bool connection_is_first(int file);

/* Notes whose connection it is. Returns false if this user, or all, have as many connections as they may. */
bool connection_is_for(int file, uid_t user);
void connection_find(void);

/* hostlist_guard.c */
void hostlist_find_real(void);

/* http_guard.c */
void http_find(void);

/* job_usage.c */
void usage_find(void);

/* layout_guard.c */
void layout_find(void);

/* length_guard.c */
void length_find(void);

/* name_lookups.c */
void lookups_find(void);

/* persist_guard.c */
void persist_find(void);

/* silent_clients.c */
void clients_find(void);

/* slow_readers.c */
void slow_readers_find(void);

/* waiting_steps.c: the first notes a list to which Slurm appends. */
void waiting_steps_see(void *list);
void waiting_steps_find(void);

/* zero_cpus.c */
void zero_cpus_find(void);

#pragma GCC visibility pop

#endif
