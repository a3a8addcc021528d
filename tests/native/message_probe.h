/* Functions and types of Slurm that message_library.c and message_probe.c share. */
#ifndef MESSAGE_PROBE_H
#define MESSAGE_PROBE_H

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

struct header {
    uint16_t version, flags, type;
};

struct arguments {
    void *connection, *reference;
    int status;
};

struct callbacks {
    void *before[3];
    int (*content)(const struct message *const *content, void *argument);
    void *after[2];
};

void hold_a_lock(void);
int slurm_unpack_msg_and_forward(void *message, void *origin, int file, void *buffer);
int slurm_unpack_received_msg(void *message, int file, void *buffer);
int slurm_receive_msg(void *connection, void *message, int timeout);
int eio_message_socket_accept(void *port, void *all);
int unpack_header(struct header *header, void *buffer);
void auth_g_get_ids(void *token, uid_t *uid, gid_t *gid);
int unpack_msg(void *message, void *buffer);
int job_record_unpack(void **job, int tres, void *buffer, uint16_t version);
int slurm_open_unix_stream(char *path, int flags, int *file);
bool http_switch_http_enabled(void);
int stepd_attach(int file, uint16_t stepd_version, uint16_t version, void *io, void *messages, char *certificate,
                 char *key, uid_t uid, void *answer);
int unpack32(uint32_t *number, void *buffer);
int job_options_unpack(void *options, void *buffer);
void *slurm_hostlist_create(const char *list);
int slurm_hostlist_count(void *hosts);
void slurm_hostlist_destroy(void *hosts);
void *hostlist_create(const char *list);
void *hostlist_create_dims(const char *list, int dimensions);
int hostlist_split_treewidth(void *hosts, void ***parts, int *count, uint16_t width);
int slurm_persist_conn_process_msg(void *connection, void *message, char *text, uint32_t size, void **answer,
                                   bool first);
void *slurm_persist_make_rc_msg(void *connection, uint32_t code, char *text, uint16_t type);
ssize_t conn_g_recv(void *connection, void *bytes, size_t size);
int on_rpc_connection_data(struct arguments arguments, void *size);
void resize_input_buffer(struct arguments arguments, void *size);
void conmgr_queue_close_fd(void *connection);
int http_parser_g_new_parse_request(const char *name, const struct callbacks *callbacks, void *argument, void **state);
const char *slurmdbd_msg_type_2_str(unsigned type, int exact);
const char *rpc_num2string(unsigned type);

#endif
