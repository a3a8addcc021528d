/* Stands for libslurmfull behind message_guard.so. */
#include "message_probe.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* NOLINTBEGIN(readability-non-const-parameter): the parameters are Slurm's. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Stands for another thread in a library of slurmd's; it goes on while a first child waits for nothing. */
static void *hold(void *is_held) {
    pthread_mutex_lock(&lock);
    pthread_barrier_wait(is_held);
    usleep(100000);
    pthread_mutex_unlock(&lock);
    return NULL;
}

void hold_a_lock(void) {
    pthread_t holder;
    static pthread_barrier_t is_held;
    pthread_barrier_init(&is_held, NULL, 2);
    if (!pthread_create(&holder, NULL, hold, &is_held))
        pthread_barrier_wait(&is_held);
}

static int receive(void *message, void *buffer) {
    struct message *received = message;
    struct header header;
    uid_t uid;
    gid_t gid;
    if (unpack_header(&header, message))
        return 1;
    if (received->sender != (uid_t)-1)
        auth_g_get_ids(message, &uid, &gid);
    int failed = unpack_msg(message, buffer);
    if (failed && !strcmp(received->reading, "slow"))
        usleep(5000000);
    return failed;
}

void *slurm_receive_msgs(void *connection, int steps, int timeout) {
    struct message *message = connection;
    (void)steps;
    return slurm_unpack_received_msg(message, timeout, message) ? NULL : message;
}

int slurm_send_recv_controller_msg(void *request, void *answer, void *cluster) {
    (void)request;
    (void)cluster;
    return slurm_receive_msg(NULL, answer, 0);
}

int slurm_get_node_energy(char *host, uint16_t context, uint16_t seconds, uint16_t *count, void *energy) {
    (void)host;
    (void)context;
    (void)seconds;
    (void)count;
    return slurm_receive_msg(NULL, energy, 0);
}

int slurm_unpack_received_msg(void *message, int file, void *buffer) {
    (void)file;
    return receive(message, buffer);
}

int slurm_unpack_msg_and_forward(void *message, void *origin, int file, void *buffer) {
    (void)origin;
    (void)file;
    return receive(message, buffer);
}

int slurm_receive_msg(void *connection, void *message, int timeout) {
    (void)connection; /* Of a descriptor, if there is one. */
    return slurm_unpack_received_msg(message, timeout, message);
}

/* Takes a message of a connection that was accepted. */
int eio_message_socket_accept(void *port, void *all) {
    return slurm_receive_msg(all, port, 0);
}

void slurm_msg_t_init(void *message) {
    (void)message;
    fputs("emptied ", stdout);
}

uid_t auth_g_get_uid(void *token) {
    (void)token;
    return (uid_t)-1;
}

int io_init_msg_read_from_fd(int file, void *connection, void *message) {
    char bytes[64];
    (void)message;
    return connection || printf("%zd ", read(file, bytes, sizeof(bytes))) < 0;
}

int unpack_header(struct header *header, void *buffer) {
    *header = (struct header){.version = 45 << 8, .type = ((struct message *)buffer)->type};
    return 0;
}

void auth_g_get_ids(void *token, uid_t *uid, gid_t *gid) {
    *uid = ((struct message *)token)->sender;
    *gid = 0;
}

#define STEP_CREATE 5001
#define DISTRIBUTION_AT 89 /* The last byte of each, without texts before. */
#define FLAGS_AT 104       /* SSF_EXT_LAUNCHER alone is in it. */
#define ARBITRARY 3

/* A message inside of another. Slurm calls by its table of symbols, as no function calls itself. */
static int read_inside(struct message *message, void *buffer) {
    static int (*volatile read)(void *, void *) = unpack_msg;
    message->reading = "works";
    return read(message, buffer);
}

int unpack_msg(void *message, void *buffer) {
    const struct message *received = buffer;
    const char *reading = ((struct message *)message)->reading;
    void *job;
    if (((struct message *)message)->numbers_read)
        return 1; /* The guard has read in the buffer, and left it so. */
    if (!strcmp(reading, "ends"))
        abort();
    while (!strcmp(reading, "hangs"))
        ;
    if (!strcmp(reading, "inside"))
        return read_inside(message, buffer);
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    if (received->type == STEP_CREATE && received->data[FLAGS_AT] && received->data[DISTRIBUTION_AT] == ARBITRARY)
        return 1; /* Slurm's own would keep the order of an external launcher's nodes. */
    if (!strncmp(reading, "launch:", strlen("launch:"))) {
        const char *hex = reading + strlen("launch:");
        ((struct message *)buffer)->numbers_read = (uint32_t)(strchr(hex, ':') - hex) / 2;
        return !read_credential(buffer) || job_options_unpack(NULL, buffer);
    }
    if (!strncmp(reading, "components:", 11))
        return !read_components(reading);
    if (!strcmp(reading, "sluid"))
        return received->data[0] || received->data[7] || !received->data[8];
    if (strstr(reading, "accounting"))
        return jobacctinfo_unpack(&job, 0, 0, buffer, true);
    return strcmp(reading, "record") ? 0 : job_record_unpack(&job, 0, buffer, 0);
}

int job_options_unpack(void *options, void *buffer) {
    (void)options;
    (void)buffer;
    return 0;
}

int slurm_persist_conn_process_msg(void *connection, void *message, char *text, uint32_t size, void **answer,
                                   bool first) {
    (void)connection;
    (void)size;
    (void)answer;
    (void)first;
    bool begins = text[0] == (char)(6500 >> 8) && text[1] == (char)(6500 & 0xff);
    return begins ? slurm_unpack_received_msg(message, 0, message) : 0;
}

void *slurm_persist_make_rc_msg(void *connection, uint32_t code, char *text, uint16_t type) {
    (void)connection;
    (void)code;
    (void)type;
    return text;
}

const char *slurmdbd_msg_type_2_str(unsigned type, int exact) {
    (void)exact;
    static const struct {
        unsigned type;
        const char *name;
    } names[] = {
        {1401, "DBD_FINI"}, {1432, "DBD_GET_JOBS_COND"}, {1459, "DBD_ARCHIVE_DUMP"}, {1460, "DBD_ARCHIVE_LOAD"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].type == type)
            return names[i].name;
    return "DBD_JOB_START";
}

ssize_t conn_g_recv(void *connection, void *bytes, size_t size) {
    (void)connection;
    (void)bytes;
    return (ssize_t)size;
}

ssize_t conn_g_sendv(void *connection, const struct iovec *parts, int number) {
    return writev(*(const int *)connection, parts, number);
}

/* Bytes of a message came, whose size is the argument; it is whole if that is 0. */
int on_rpc_connection_data(struct arguments arguments, void *argument) {
    if (argument)
        resize_input_buffer(arguments, argument);
    return 0;
}

void resize_input_buffer(struct arguments arguments, void *size) {
    (void)arguments;
    (void)size;
    fputs("filled ", stdout);
}

int http_parser_g_new_parse_request(const char *name, const struct callbacks *callbacks, void *argument, void **state) {
    (void)name;
    (void)argument;
    *state = (void *)callbacks;
    return 0;
}

/* "q" is a question's end, "h" a line of its head, "b" one that Slurm does not take. */
int http_parser_g_parse_request(void *state, const void *bytes, ssize_t *parsed) {
    const struct callbacks *callbacks = state;
    for (const char *at = bytes; *at; at++) {
        int failed = *at == 'q' ? callbacks->request(at, NULL) : callbacks->header(at, NULL);
        if (failed)
            return failed;
        *parsed = at + 1 - (const char *)bytes;
    }
    return 0;
}

void *slurm_accept_msg_conn(int fd, void *address) {
    static int file;
    (void)address;
    file = accept4(fd, NULL, NULL, 0);
    return &file;
}

int conn_g_get_fd(void *connection) {
    return connection ? *(const int *)connection : -1;
}

void slurmdbd_free_msg(void *message) {
    (void)message;
    fputs("freed ", stdout);
}

void conmgr_init(int threads, int default_threads, int number) {
    (void)threads;
    (void)default_threads;
    (void)number;
}

int conmgr_set_params(const char *parameters) {
    (void)parameters;
    return 0;
}

void conmgr_queue_close_fd(void *connection) {
    printf("%d ", *(const uint16_t *)connection);
}

int jobacctinfo_unpack(void **counts, uint16_t version, uint16_t kind, void *buffer, bool makes) {
    (void)counts;
    (void)version;
    (void)kind;
    (void)makes;
    return ((struct message *)buffer)->numbers_read != 0;
}

int job_record_unpack(void **job, int tres, void *buffer, uint16_t version) {
    (void)job;
    (void)tres;
    (void)buffer;
    (void)version;
    return 0;
}

int slurm_open_unix_stream(char *path, int flags, int *file) {
    (void)path;
    (void)flags;
    (void)file;
    return 0;
}

bool http_switch_http_enabled(void) {
    return true;
}

int stepd_attach(int file, uint16_t stepd_version, uint16_t version, void *io, void *messages, char *certificate,
                 char *key, uid_t uid, void *answer) {
    (void)file;
    (void)stepd_version;
    (void)version;
    (void)io;
    (void)messages;
    (void)certificate;
    (void)uid;
    (void)answer;
    return key[0] != 'k';
}

/* Five numbers of a step's id, then the length of the job's name. */
int unpack32(uint32_t *number, void *buffer) {
    struct message *message = buffer;
    bool waits = !strcmp(message->reading, "waiting") && message->numbers_read == 3;
    *number = message->numbers_read++ < 5 ? 7 : strcmp(message->reading, "nameless") ? 3 : 0;
    if (waits)
        *number = 0xfffffffd; /* The step's number, SLURM_PENDING_STEP. */
    return 0;
}

const char *rpc_num2string(unsigned type) {
    static const struct {
        unsigned type;
        const char *name;
    } names[] = {
        {1018, "RESPONSE_ACCT_GATHER_ENERGY"},  {1031, "REQUEST_DBD_RELAY"}, {2004, "RESPONSE_JOB_INFO"},
        {2017, "REQUEST_TRIGGER_SET"},          {4502, "REQUEST_SIB_MSG"},   {4025, "REQUEST_HET_JOB_ALLOCATION"},
        {4028, "REQUEST_SUBMIT_BATCH_HET_JOB"}, {8001, "RESPONSE_SLURM_RC"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].type == type)
            return names[i].name;
    return "REQUEST_OF_SOME_KIND";
}
/* NOLINTEND(readability-non-const-parameter) */
