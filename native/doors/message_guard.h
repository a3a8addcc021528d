/* Declarations that the files of message_guard.so share. */
#ifndef PULUMI_SLURM_MESSAGE_GUARD_H
#define PULUMI_SLURM_MESSAGE_GUARD_H

#include "slurm_ids.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define NOBODY ((uid_t) - 1)
#define REFUSED (-1)      /* SLURM_ERROR */
#define PERSIST_INIT 6500 /* REQUEST_PERSIST_INIT */

#pragma GCC visibility push(hidden)

/* Slurm's function of that name behind ours; this Slurm's programs do not start without it. */
void *guard_find(const char *name);

/* Whether this is slurmdbd. */
bool guard_is_database(void);

/* Whose token the message had that this thread has read last. */
uid_t guard_sender(void);

/* Slurm's own reading of a message's body. */
int guard_read_body(void *message, void *buffer);

/* launch_reader.c: the fault of a user's launch, or NULL. */
const char *launch_fault(void *message, void *buffer, uint16_t version);

/* launch_check.c: before a child reads a launch, and after it. Whether slurmd finds each node's part of it; one that
 * could not be read, slurmd cannot read either. */
void launch_find(void);
void launch_begin(const void *buffer, uint16_t version);
bool launch_fits(bool is_read);

/* persist_guard.c */
void persist_find(void);

#pragma GCC visibility pop

#endif
