/* Functions and types of Slurm that message_library.c and message_probe.c share. */
#ifndef MESSAGE_PROBE_H
#define MESSAGE_PROBE_H

#include "doors/slurm_functions.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Its first fields are those of Slurm's buf_t. */
struct message {
    uint32_t magic;
    unsigned char *data;
    uint32_t size, numbers_read;
    uint16_t type;
    uid_t sender;
    const char *reading;
};

struct callbacks {
    void *before[3];
    int (*content)(const struct message *const *content, void *argument);
    void *after[2];
};

void hold_a_lock(void);
int unpack32(uint32_t *number, void *buffer);
int job_options_unpack(void *options, void *buffer);
void *slurm_hostlist_create(const char *list);
int slurm_hostlist_count(void *hosts);
void slurm_hostlist_destroy(void *hosts);
void *slurm_persist_make_rc_msg(void *connection, uint32_t code, char *text, uint16_t type);
void conmgr_queue_close_fd(void *connection);
int http_parser_g_new_parse_request(const char *name, const struct callbacks *callbacks, void *argument, void **state);
const char *slurmdbd_msg_type_2_str(unsigned type, int exact);
const char *rpc_num2string(unsigned type);

#endif
