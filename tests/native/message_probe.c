/* Stands for libslurmfull (-DLIBRARY) and for a program of Slurm that receives one message: TYPE UID WHAT-READING-DOES.
 * It calls as Slurm does, and says whether the body was read. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

struct message {
    uint32_t numbers_read;
    uint16_t type;
    uid_t sender;
    const char *reading;
};

struct header {
    uint16_t version, flags, type;
};

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
const char *rpc_num2string(unsigned type);

#ifdef LIBRARY
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
    *header = (struct header){.type = ((struct message *)buffer)->type};
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
    return strcmp(reading, "record") ? 0 : job_record_unpack(&job, 0, buffer, 0);
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
int main(int argc, char *argv[]) {
    if (argc != 5)
        return 2;
    struct message message = {
        .type = (uint16_t)strtol(argv[1], NULL, 10), .sender = (uid_t)strtol(argv[2], NULL, 10), .reading = argv[3]};
    bool asks = !strcmp(argv[4], "asked");
    char key[] = "key";
    if (!strcmp(argv[4], "attach"))
        return puts(stepd_attach(0, 0, 0, NULL, NULL, NULL, argv[3][0] ? key : NULL, 0, NULL) ? "refused" : "read") < 0;
    bool accepts = !strcmp(argv[4], "accepted");
    int failed = asks      ? slurm_receive_msg(NULL, &message, 0)
                 : accepts ? eio_message_socket_accept(&message, NULL)
                           : slurm_unpack_msg_and_forward(&message, NULL, 0, &message);
    printf("%s http=%d\n", failed ? "refused" : "read", http_switch_http_enabled());
    return 0;
}
#endif
