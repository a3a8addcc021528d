/* Stands for libslurmfull (-DLIBRARY) and for a program of Slurm that receives messages: TYPE UID WHAT-READING-DOES
 * HOW. It calls as Slurm does, and says whether the body was read. A launch's body is "launch:HEX:NODES": what stands
 * before its credential, and the list behind its options; of slurmdbd TYPE is a list of a connection's messages. A
 * message that came "onward" is to be passed on. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

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
const char *slurmdbd_msg_type_2_str(unsigned type, int exact);
const char *rpc_num2string(unsigned type);

#ifdef LIBRARY
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

int slurm_unpack_received_msg(void *message, int file, void *buffer) {
    struct message *received = message;
    struct header header;
    uid_t uid;
    gid_t gid;
    (void)file;
    if (unpack_header(&header, message))
        return 1;
    if (received->sender != (uid_t)-1)
        auth_g_get_ids(message, &uid, &gid);
    return unpack_msg(message, buffer);
}

int slurm_unpack_msg_and_forward(void *message, void *origin, int file, void *buffer) {
    (void)origin;
    return slurm_unpack_received_msg(message, file, buffer);
}

int slurm_receive_msg(void *connection, void *message, int timeout) {
    (void)connection;
    return slurm_unpack_received_msg(message, timeout, message);
}

int eio_message_socket_accept(void *port, void *all) {
    (void)all;
    return slurm_receive_msg(NULL, port, 0);
}

int unpack_header(struct header *header, void *buffer) {
    *header = (struct header){.version = 45 << 8, .type = ((struct message *)buffer)->type};
    return 0;
}

void auth_g_get_ids(void *token, uid_t *uid, gid_t *gid) {
    *uid = ((struct message *)token)->sender;
    *gid = 0;
}

int unpack_msg(void *message, void *buffer) {
    const char *reading = ((struct message *)message)->reading;
    void *job;
    if (((struct message *)message)->numbers_read)
        return 1; /* The guard has read in the buffer, and left it so. */
    if (!strcmp(reading, "ends"))
        abort();
    while (!strcmp(reading, "hangs"))
        ;
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    if (!strncmp(reading, "launch:", strlen("launch:"))) {
        /* Where the options end. */
        const char *hex = reading + strlen("launch:");
        ((struct message *)buffer)->numbers_read = (uint32_t)(strchr(hex, ':') - hex) / 2;
        return job_options_unpack(NULL, buffer);
    }
    return strcmp(reading, "record") ? 0 : job_record_unpack(&job, 0, buffer, 0);
}

int job_options_unpack(void *options, void *buffer) {
    (void)options;
    (void)buffer;
    return 0;
}

void *slurm_hostlist_create(const char *list) {
    return strdup(list);
}

int slurm_hostlist_count(void *hosts) {
    int count = 1;
    for (const char *at = hosts; *at; at++)
        count += *at == ',';
    return count;
}

void slurm_hostlist_destroy(void *hosts) {
    free(hosts);
}

void *hostlist_create(const char *list) {
    return strdup(list);
}

void *hostlist_create_dims(const char *list, int dimensions) {
    return dimensions ? strdup(list) : NULL;
}

int hostlist_split_treewidth(void *hosts, void ***parts, int *count, uint16_t width) {
    (void)hosts;
    (void)parts;
    *count = width;
    return 1;
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

/* Bytes of a message with this size came; it is whole if that is 0. */
int on_rpc_connection_data(struct arguments arguments, void *size) {
    if (size)
        resize_input_buffer(arguments, size);
    return 0;
}

void resize_input_buffer(struct arguments arguments, void *size) {
    (void)arguments;
    (void)size;
    fputs("filled ", stdout);
}

void conmgr_queue_close_fd(void *connection) {
    printf("%zu ", (size_t)connection);
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
    *number = message->numbers_read++ < 5 ? 7 : strcmp(message->reading, "nameless") ? 3 : 0;
    return 0;
}

const char *rpc_num2string(unsigned type) {
    return type == 2004 ? "RESPONSE_JOB_INFO" : type == 2017 ? "REQUEST_TRIGGER_SET" : "REQUEST_OF_SOME_KIND";
}
#else
static bool read_launch(struct message *message) {
    static unsigned char body[4096];
    const char *hex = message->reading + strlen("launch:"), *list = strchr(hex, ':') + 1;
    uint32_t head = (uint32_t)(list - 1 - hex) / 2, length = (uint32_t)strlen(list) + 1;
    message->size = head + 4 + length;
    message->data = body;
    if (message->size > sizeof(body))
        return false;
    for (uint32_t i = 0; i < head; i++) {
        const char digits[] = {hex[(size_t)2 * i], hex[(size_t)2 * i + 1], '\0'};
        body[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    message->data[head + 2] = (unsigned char)(length >> 8);
    message->data[head + 3] = (unsigned char)length;
    memcpy(message->data + head + 4, list, length);
    return true;
}

static int say(int failed) {
    return printf("%s ", failed ? "refused" : "read") < 0;
}

/* The messages of one connection: PERSIST_INIT has a message inside, whose type is MESSAGE's. B and a number asks for
 * so many bytes. */
static int connect(struct message *message, char *types) {
    for (char *rest = types, *word = strsep(&rest, ","); word; word = strsep(&rest, ",")) {
        if (*word == 'B') {
            if (say(conn_g_recv(NULL, NULL, strtoul(word + 1, NULL, 10)) < 0))
                return 1;
            continue;
        }
        uint16_t type = (uint16_t)strtol(word, NULL, 10);
        char text[] = {(char)(type >> 8), (char)type};
        void *answer = NULL;
        if (say(slurm_persist_conn_process_msg(NULL, message, text, sizeof(text), &answer, word == types)))
            return 1;
    }
    return 0;
}

/* Takes a list of nodes, by either function. */
static int list(const char *names) {
    void *one = hostlist_create(names), *other = hostlist_create_dims(names, 1);
    int failed = say(!one) || say(!other);
    free(one);
    free(other);
    return failed;
}

/* Takes a list of connections, each with the size of the message of which bytes came. */
static int receive(char *list) {
    for (char *rest = list, *word = strsep(&rest, ","); word; word = strsep(&rest, ",")) {
        char *colon = word;
        struct arguments arguments = {.connection = (void *)strtoul(word, &colon, 10)};
        if (on_rpc_connection_data(arguments, (void *)strtoul(colon + 1, NULL, 10)))
            return 1;
    }
    return 0;
}

static int split(void) {
    int width = 0;
    return hostlist_split_treewidth(NULL, NULL, &width, 2) != 1 || printf("%d", width) < 0;
}

int main(int argc, char *argv[]) {
    static unsigned char onward[] = {45, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    if (argc != 5)
        return 2;
    if (!strcmp(argv[4], "lists"))
        return list(argv[3]);
    if (!strcmp(argv[4], "receives"))
        return receive(argv[3]);
    if (!strcmp(argv[4], "splits"))
        return split();
    struct message message = {
        .type = (uint16_t)strtol(argv[1], NULL, 10), .sender = (uid_t)strtol(argv[2], NULL, 10), .reading = argv[3]};
    bool asks = !strcmp(argv[4], "asked");
    if (!strcmp(argv[4], "locked"))
        hold_a_lock();
    char key[] = "key";
    if (!strncmp(argv[3], "launch:", strlen("launch:")) && !read_launch(&message))
        return 2;
    if (!strcmp(argv[4], "onward")) {
        message.data = onward;
        message.size = sizeof(onward);
    }
    if (!strcmp(argv[4], "connects"))
        return connect(&message, strchr(argv[1], ':') + 1);
    if (!strcmp(argv[4], "attach"))
        return say(stepd_attach(0, 0, 0, NULL, NULL, NULL, argv[3][0] ? key : NULL, 0, NULL));
    bool accepts = !strcmp(argv[4], "accepted");
    int failed = asks      ? slurm_receive_msg(NULL, &message, 0)
                 : accepts ? eio_message_socket_accept(&message, NULL)
                           : slurm_unpack_msg_and_forward(&message, NULL, 0, &message);
    printf("%s http=%d\n", failed ? "refused" : "read", http_switch_http_enabled());
    return 0;
}
#endif
