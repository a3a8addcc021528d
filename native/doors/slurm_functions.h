/* Functions of Slurm before which message_guard.so stands, with their types. The stand-in of tests/native has the same.
 */
#ifndef PULUMI_SLURM_SLURM_FUNCTIONS_H
#define PULUMI_SLURM_SLURM_FUNCTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

/* The first fields of Slurm's header_t. */
struct header {
    uint16_t version, flags, type;
};

/* conmgr_callback_args_t */
struct arguments {
    void *connection, *reference;
    int status;
};

/* The first fields of gres_mc_data_t: what a job's tasks ask of each node. */
struct task_sizes {
    uint16_t boards, sockets_per_board, sockets, cores, threads, cpus_per_task;
};

/* The first fields of slurm_msg_t. */
struct to_send {
    struct sockaddr_storage address;
    void *token;
    int kind;
    uid_t uid;
    gid_t gid;
    bool has_ids;
    uid_t reader;
    bool is_for_one;
};

/* The first fields of topology_eval_t. */
struct plan {
    void *cores;
    uint16_t cpus;
    void *resources;
    uint16_t kind;
    bool is_bound;
    int next;
    int (*evaluate)(struct plan *plan);
    bool is_first, has_total_gres;
    void *job;
    uint32_t most_nodes;
    const struct task_sizes *tasks;
};

/* The first fields of slurm_step_layout_t. */
struct layout {
    void *cpus;
    uint32_t cpu_numbers;
    void *cpu_counts, *addresses;
    uint32_t nodes;
    char *names;
    uint16_t plane, version;
    uint16_t *node_tasks;
    uint32_t tasks;
};

int slurm_unpack_msg_and_forward(void *message, void *origin, int file, void *buffer);
int slurm_unpack_received_msg(void *message, int file, void *buffer);
int slurm_receive_msg(void *connection, void *message, int timeout);
int slurm_send_recv_controller_msg(void *request, void *answer, void *cluster);
int slurm_get_node_energy(char *host, uint16_t context, uint16_t seconds, uint16_t *count, void *energy);
void *slurm_receive_msgs(void *connection, int steps, int timeout);
int eio_message_socket_accept(void *port, void *all);
void *slurm_accept_msg_conn(int fd, void *address);
int unpack_header(struct header *header, void *buffer);
void auth_g_get_ids(void *token, uid_t *uid, gid_t *gid);
uid_t auth_g_get_uid(void *token);
int unpack_msg(void *message, void *buffer);
int io_init_msg_read_from_fd(int file, void *connection, void *message);
void *slurm_cred_unpack(void *buffer, uint16_t version);
int job_record_unpack(void **job, int tres, void *buffer, uint16_t version);
int jobacctinfo_unpack(void **counts, uint16_t version, uint16_t kind, void *buffer, bool makes);
int slurm_open_unix_stream(char *path, int flags, int *file);
bool http_switch_http_enabled(void);
int stepd_attach(int file, uint16_t stepd_version, uint16_t version, void *io, void *messages, char *certificate,
                 char *key, uid_t uid, void *answer);
void *hostlist_create(const char *list);
void *hostlist_create_dims(const char *list, int dimensions);
int hostlist_split_treewidth(void *hosts, void ***parts, int *count, uint16_t width);
int slurm_persist_conn_process_msg(void *connection, void *message, char *text, uint32_t size, void **answer,
                                   bool first);
ssize_t conn_g_recv(void *connection, void *bytes, size_t size);
ssize_t conn_g_sendv(void *connection, const struct iovec *parts, int number);
void slurm_set_addr(void *address, uint16_t port, char *host);
void *create_step_record(void *job, uint16_t version);
int slurm_send_only_node_msg(struct to_send *message);
int conmgr_set_params(const char *parameters);
int topology_g_eval_nodes(struct plan *plan);
void slurm_step_layout_merge(struct layout *sum, struct layout *other);
void conmgr_init(int threads, int default_threads, int number);
int on_rpc_connection_data(struct arguments arguments, void *argument);
void resize_input_buffer(struct arguments arguments, void *size);

#endif
