/* Makes Slurm's listening programs learn who sent a message before they read its body.
 *
 * A library that the image's build links to those programs, before all others (images/slurm/build_prefix.py). Slurm
 * 26.05 first reads a message's body, even without a token, and then asks who sent it. It does so for the message types
 * of all its programs. So anybody who reaches a port can feed two hundred parsers of a privileged process; some of them
 * crash it (docs/doors.md). With this library
 *
 *   - no program reads a message without a token;
 *   - slurmd reads from users only the messages that their commands send to a node (message_rules.c);
 *   - slurmctld reads from users neither answers nor messages between nodes and clients, nor one inside of another;
 *   - slurmctld reads of an answer what it asked for (answer_guard.c);
 *   - slurmctld takes no accounting from users, and finds the job of a step by its ordinary number;
 *   - slurmctld takes heterogeneous jobs that name a bounded number of nodes (components_guard.c);
 *   - slurmctld takes no step with numbers by which it would divide by zero (step_guard.c);
 *   - slurmctld adds up as many tasks as it can count (layout_guard.c);
 *   - slurmctld waits for no user's host, and wakes a bounded number of steps (name_lookups.c, silent_clients.c,
 *     waiting_steps.c);
 *   - slurmdbd takes a finished job's resources from no user (job_usage.c);
 *   - srun, salloc, sattach and swait read, at their own ports, messages of root, SlurmUser and their own user;
 *   - none of them waits for a stranger (client_guard.c);
 *   - slurmdbd reads nothing from a connection that has not named its user (persist_guard.c);
 *   - slurmd passes no message on to other nodes (forward_guard.c);
 *   - no daemon makes more names of a list than a cluster has nodes (hostlist_guard.c);
 *   - no daemon takes memory for bytes that have not come (length_guard.c);
 *   - connections that say nothing shut out nobody, and each brings a daemon one message (connection_guard.c);
 *   - who reads an answer slowly holds none of slurmctld's threads (slow_readers.c);
 *   - slurmctld takes no body with a question in HTTP, and one question at once (http_guard.c);
 *   - slurmctld plans no job whose tasks have no CPU (zero_cpus.c);
 *   - a child of slurmd reads a user's launch first: the child may crash or hang in slurmd's place (launch_reader.c).
 *     It checks that slurmd would find its part of the launch (launch_check.c), and whose it is (launch_credential.c).
 *
 * It also has slurmd look at the pod's mounts before it starts a slurmstepd (view_watch.c).
 *
 * libslurmfull calls the functions below through its table of symbols, so ours come first. */
#include "message_guard.h"
#include "slurm_functions.h"
#include "stepd_view.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CANCEL 5032              /* REQUEST_KILL_JOB */
#define STEP_CREATE 5001         /* REQUEST_JOB_STEP_CREATE */
#define LAYOUT 5021              /* REQUEST_STEP_LAYOUT */
#define STEP_ID_NUMBERS 5        /* pack_step_id: one of 64 bits and three. */
#define STEP_PLACE 3             /* The step's own number among them. */
#define WAITING_STEP 0xfffffffdU /* SLURM_PENDING_STEP; the next number means any step. */
#define BUFFER_HEAD 24           /* buf_t: magic, where it begins, size, how far it was read. */
/* The sockets of PMI-2. It lies in PMI2_FOLDER, if the configuration asks for it (docs/adr/0022). */
#define PMI2_SOCKET "sock.pmi2."

static int (*real_forward)(void *, void *, int, void *);
static int (*real_received)(void *, int, void *);
static int (*real_receive)(void *, void *, int);
static void *(*real_receive_several)(void *, int, int);
static int (*real_accept)(void *, void *);
static int (*real_header)(struct header *, void *);
static void (*real_ids)(void *, uid_t *, gid_t *);
static int (*real_body)(void *, void *);
static int (*real_job)(void **, int, void *, uint16_t);
static int (*real_counts)(void **, uint16_t, uint16_t, void *, bool);
static int (*real_open)(char *, int, int *);
static bool (*real_http)(void);
static int (*real_attach)(int, uint16_t, uint16_t, void *, void *, char *, char *, uid_t, void *);
static int (*real_usleep)(useconds_t);
static int (*next_number)(uint32_t *, void *);
static const char *(*name_of)(unsigned type);

/* This thread's state: it waits for an answer that it asked for, or holds a message that came to the port. */
static __thread struct {
    bool is_asking, is_accepting, is_received, is_inside;
    uint16_t type, version;
    uid_t sender;
} current;

/* Returns true if the message is the first of its connection; commands take more. */
static bool begin(int file) {
    bool is_first = guard_is_database() || connection_is_first(file);
    if (!is_first && !guard_is_client()) {
        fputs("error: refused a second message of a connection\n", stderr);
        return false;
    }
    current.is_received = true;
    current.sender = NOBODY;
    return true;
}

int slurm_unpack_msg_and_forward(void *message, void *origin, int file, void *buffer) {
    if (!begin(file))
        return REFUSED;
    int failed = real_forward(message, origin, file, buffer);
    current.is_received = false;
    return failed;
}

/* An answer that this program asked for has no token. Commands use this call at their ports, too. */
int slurm_receive_msg(void *connection, void *message, int timeout) {
    bool has_come = client_has_accepted(connection);
    current.is_asking = !has_come;
    int failed =
        has_come ? client_receive(connection, message, real_receive) : real_receive(connection, message, timeout);
    current.is_asking = false;
    return failed && has_come && !current.is_accepting ? client_waits_on(message) : failed;
}

void *slurm_receive_msgs(void *connection, int steps, int timeout) {
    current.is_asking = true;
    void *answers = real_receive_several(connection, steps, timeout);
    current.is_asking = false;
    return answers;
}

int eio_message_socket_accept(void *port, void *all) {
    current.is_accepting = true;
    int failed = real_accept(port, all);
    current.is_accepting = false;
    return failed;
}

int slurm_unpack_received_msg(void *message, int file, void *buffer) {
    if (current.is_asking)
        return real_received(message, file, buffer);
    if (!begin(file))
        return REFUSED;
    int failed = real_received(message, file, buffer);
    current.is_received = false;
    return failed;
}

/* After a message that it can't read, Slurm has its thread sleep for 10 ms. Few threads serve all. */
int usleep(useconds_t useconds) {
    return current.is_received ? 0 : real_usleep(useconds);
}

static bool is_answer(void) {
    return guard_is_controller() && current.is_asking && !current.is_received;
}

int unpack_header(struct header *header, void *buffer) {
    uint32_t begin = ((const struct buffer *)buffer)->read;
    if (is_answer() && !answer_is_bare(buffer, begin))
        return REFUSED;
    int failed = real_header(header, buffer);
    if (failed)
        return failed;
    current.type = header->type;
    current.version = header->version;
    if (!current.is_received)
        return 0;
    if (guard_is_node() && forward_is_asked(buffer, begin)) {
        fprintf(stderr, "error: refused to pass %s on to other nodes\n", name_of(header->type));
        return REFUSED;
    }
    return 0;
}

void auth_g_get_ids(void *token, uid_t *uid, gid_t *gid) {
    real_ids(token, uid, gid);
    if (current.is_received)
        current.sender = *uid;
}

/* Returns a body's number of 32 bits at that place, or the last one before its end. The first fields of Slurm's buffer
 * say how far it was read. */
static uint32_t number_at(void *buffer, int place) {
    unsigned char before[BUFFER_HEAD];
    uint32_t number = 0;
    memcpy(before, buffer, sizeof(before));
    for (int i = 0; i <= place; i++)
        if (next_number(&number, buffer))
            break;
    memcpy(buffer, before, sizeof(before));
    return number;
}

/* A cancel begins with a step's id and the length of the text that names the job. slurmctld crashes without that text
 * (26.05.5, job_str_signal). It also crashes on a question about the nodes of a step that waits, which has none (26.05,
 * stepmgr_get_step_layouts). */
static const char *fault_of_request(void *buffer) {
    if (current.type == CANCEL && !number_at(buffer, STEP_ID_NUMBERS))
        return "a cancel that names no job";
    if (current.type == STEP_CREATE)
        return step_fault(buffer, current.version);
    if (current.type == LAYOUT && number_at(buffer, STEP_PLACE) >= WAITING_STEP)
        return "a question about the nodes of a step that waits";
    return NULL;
}

static bool is_of_a_user(void) {
    return current.sender != 0 && current.sender != SLURM_ID;
}

/* A step's id begins with the other kind of number that a job has, its SLUID. slurmctld finds the job by that. It lets
 * the step keep the ordinary number that came beside it (26.05, _set_step_id). So a user could give his step another
 * user's job: his tasks would run in its namespaces, and what ends his step would end one of that job. Without a SLUID
 * slurmctld finds the job by its ordinary number. */
static void drop_sluid(void *body) {
    struct buffer *whole = body;
    if (whole->read <= whole->size && whole->size - whole->read >= sizeof(uint64_t))
        memset((unsigned char *)whole->data + whole->read, 0, sizeof(uint64_t));
}

int unpack_msg(void *message, void *buffer) {
    if (is_answer() && !answer_is_expected(name_of(current.type))) {
        fprintf(stderr, "error: refused the answer %s\n", name_of(current.type));
        return REFUSED;
    }
    if (!current.is_received)
        return real_body(message, buffer);
    if (current.is_inside && is_of_a_user()) {
        fprintf(stderr, "error: refused a message inside of another from uid %d\n", (int)current.sender);
        return REFUSED;
    }
    if (!may_send(current.sender, current.type)) {
        fprintf(stderr, "error: refused %s from uid %d\n", name_of(current.type), (int)current.sender);
        return REFUSED;
    }
    const char *fault = guard_is_controller() ? fault_of_request(buffer) : NULL;
    if (fault) {
        fprintf(stderr, "error: refused %s, of uid %d\n", fault, (int)current.sender);
        return REFUSED;
    }
    if (guard_is_controller() && current.type == STEP_CREATE && is_of_a_user())
        drop_sluid(buffer);
    if (guard_is_node() && current.type == LAUNCH && is_of_a_user())
        fault = launch_fault(message, buffer, current.version);
    if (fault) {
        fprintf(stderr, "error: refused a launch of uid %d: %s\n", (int)current.sender, fault);
        return REFUSED;
    }
    current.is_inside = true;
    components_begin(name_of(current.type));
    int failed = real_body(message, buffer);
    components_end();
    current.is_inside = false;
    return failed;
}

/* A launch may bring a job's record, which makes its slurmstepd step manager. A step manager has slurm.key, and every
 * slurmd obeys it as root for the job that the record names. slurmctld never makes one here (job_submit_jail.c); a
 * user's own client could. */
int job_record_unpack(void **job, int tres, void *buffer, uint16_t version) {
    if (!guard_is_node())
        return real_job(job, tres, buffer, version);
    *job = NULL;
    fputs("error: refused the record of a job in a launch: no slurmstepd is step manager here\n", stderr);
    return REFUSED;
}

/* A user's srun may tell slurmctld that his step is over, and brings no accounting of it. slurmctld would add that to
 * the step's own, for as many resources as it counts itself: with fewer it crashes (26.05, jobacctinfo_aggregate). */
int jobacctinfo_unpack(void **counts, uint16_t version, uint16_t kind, void *buffer, bool makes) {
    const struct buffer *whole = buffer;
    bool has_some = whole->read < whole->size && whole->data[whole->read];
    if (has_some && guard_is_controller() && current.is_received && is_of_a_user()) {
        fprintf(stderr, "error: refused accounting of a step from uid %d\n", (int)current.sender);
        return REFUSED;
    }
    return real_counts(counts, version, kind, buffer, makes);
}

/* slurmd crashes on a message that asks for a step's output and brings no key (26.05.5). */
int stepd_attach(int file, uint16_t stepd_version, uint16_t version, void *io, void *messages, char *certificate,
                 char *key, uid_t uid, void *answer) {
    return key ? real_attach(file, stepd_version, version, io, messages, certificate, key, uid, answer) : EINVAL;
}

/* As a user, slurmd connects for REQUEST_FORWARD_DATA alone, to a path that the user names. */
int slurm_open_unix_stream(char *path, int flags, int *file) {
    const char *slash = strrchr(path, '/');
    if (guard_is_node() && geteuid() != 0 && strncmp(slash ? slash + 1 : path, PMI2_SOCKET, strlen(PMI2_SOCKET)) != 0)
        return EACCES;
    return real_open(path, flags, file);
}

/* Nobody asks slurmd anything in HTTP here; its parser would be one more. */
bool http_switch_http_enabled(void) {
    return !guard_is_node() && real_http();
}

int guard_read_body(void *message, void *buffer) {
    return real_body(message, buffer);
}

uid_t guard_sender(void) {
    return current.sender;
}

#define FIND(real, name) ((real) = (__typeof__(real))guard_find(name))

void *guard_find(const char *name) {
    void *function = dlsym(RTLD_NEXT, name);
    if (!function) {
        fprintf(stderr, "fatal: message_guard: this Slurm has no %s: its messages can't be guarded\n", name);
        _exit(EXIT_FAILURE);
    }
    return function;
}

__attribute__((constructor)) static void stand_guard(void) {
    rules_find();
    FIND(real_forward, "slurm_unpack_msg_and_forward");
    FIND(real_received, "slurm_unpack_received_msg");
    FIND(real_receive, "slurm_receive_msg");
    FIND(real_receive_several, "slurm_receive_msgs");
    FIND(real_accept, "eio_message_socket_accept");
    FIND(real_header, "unpack_header");
    FIND(real_ids, "auth_g_get_ids");
    FIND(real_body, "unpack_msg");
    FIND(real_job, "job_record_unpack");
    FIND(real_counts, "jobacctinfo_unpack");
    FIND(real_open, "slurm_open_unix_stream");
    FIND(real_http, "http_switch_http_enabled");
    FIND(real_attach, "stepd_attach");
    FIND(real_usleep, "usleep");
    FIND(next_number, "unpack32");
    FIND(name_of, "rpc_num2string");
    client_find();
    clients_find();
    connection_find();
    launch_find();
    credential_find();
    components_find();
    forward_find();
    hostlist_find_real();
    http_find();
    layout_find();
    length_find();
    lookups_find();
    persist_find();
    slow_readers_find();
    usage_find();
    waiting_steps_find();
    zero_cpus_find();
    if (!strcmp(program_invocation_short_name, "slurmd"))
        stepd_view_watch();
}
