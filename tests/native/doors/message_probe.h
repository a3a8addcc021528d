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
    int (*request)(const void *request, void *argument);
    int (*header)(const void *header, void *argument);
    void *headers_complete;
    int (*content)(const struct message *const *content, void *argument);
    void *after[2];
};

/* connection_probe.c: what becomes of peers at a daemon's port; one that sends bytes, as a command accepts it. */
int serve_peers(struct message *message, const char *kind, char *words);
int accept_peer(const char *bytes);
int send_first(const char *length, const char *rest);
int refuse_silent(const char *number);
int answer_peers(const char *bytes, const char *how);

void hold_a_lock(void);

/* job_library.c: true if slurmctld would take the heterogeneous job. */
bool read_components(const char *reading);

/* job_library.c: true if slurmdbd takes the change of a finished job. */
bool change_job(uint32_t user, const char *what);

/* clients_library.c: how many records there are. */
int list_count(void *list);
int list_delete_ptr(void *list, void *item);
void list_append(void *list, void *item);

/* credential_library.c: true if a launch's credential could be read. */
bool read_credential(void *buffer);
void *slurm_cred_verify(void *signed_one);
void slurm_cred_get_mem(void *signed_one, char *node, const char *function, uint64_t *of_job, uint64_t *of_step);
int unpack32(uint32_t *number, void *buffer);
int job_options_unpack(void *options, void *buffer);
void *slurm_hostlist_create(const char *list);
int slurm_hostlist_count(void *hosts);
void slurm_hostlist_destroy(void *hosts);
void *slurm_persist_make_rc_msg(void *connection, uint32_t code, char *text, uint16_t type);
void conmgr_queue_close_fd(void *connection);
int http_parser_g_new_parse_request(const char *name, const struct callbacks *callbacks, void *argument, void **state);
int http_parser_g_parse_request(void *state, const void *bytes, ssize_t *parsed);
int conn_g_get_fd(void *connection);
void slurmdbd_free_msg(void *message);
void slurm_msg_t_init(void *message);
const char *slurmdbd_msg_type_2_str(unsigned type, int exact);
const char *rpc_num2string(unsigned type);

#endif
