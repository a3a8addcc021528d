/* Stands for a program of Slurm that receives messages: TYPE UID WHAT-READING-DOES HOW. It calls as Slurm does, and
 * says whether the body was read. A launch's body is "launch:HEX:NODES:CREDENTIAL": what stands before its credential,
 * the list behind its options, and "UID STEP NODE" of the credential; of slurmdbd TYPE is a list of a connection's
 * messages. A message that came "onward" is to be passed on. */
#include "message_probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_launch(struct message *message) {
    static unsigned char body[4096];
    const char *hex = message->reading + strlen("launch:"), *list = strchr(hex, ':') + 1;
    uint32_t head = (uint32_t)(list - 1 - hex) / 2, length = (uint32_t)(strrchr(list, ':') - list) + 1;
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
    memcpy(message->data + head + 4, list, length - 1);
    return true;
}

static int say(int failed) {
    return printf("%s ", failed ? "refused" : "read") < 0;
}

/* The messages of one connection: PERSIST_INIT has a message inside, whose type is MESSAGE's. B and a number asks for
 * so many bytes. */
static int connect_peer(struct message *message, char *types) {
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

/* Takes a list of connections, each with the size of the message of which bytes came. Slurm passes that as a pointer.
 */
static int receive(char *list) {
    static uint16_t connections[512];
    for (char *rest = list, *word = strsep(&rest, ","); word; word = strsep(&rest, ",")) {
        char *colon = word;
        unsigned long number = strtoul(word, &colon, 10) % 512, bytes = strtoul(colon + 1, NULL, 10);
        struct arguments arguments = {.connection = &connections[number]};
        void *size;
        connections[number] = (uint16_t)number;
        memcpy((void *)&size, &bytes, sizeof(size));
        if (on_rpc_connection_data(arguments, size))
            return 1;
    }
    return 0;
}

static int take_body(const struct message *const *content, void *argument) {
    (void)content;
    (void)argument;
    return 0;
}

static int answer(const void *request, void *argument) {
    (void)request;
    (void)argument;
    return printf("answered ") < 0;
}

static int take_header(const void *header, void *argument) {
    (void)argument;
    return *(const char *)header == 'b';
}

static void *new_parser(void) {
    static const struct callbacks own = {.request = answer, .header = take_header, .content = take_body};
    void *state = NULL;
    return http_parser_g_new_parse_request("", &own, NULL, &state) ? NULL : state;
}

/* A question in HTTP with a body of so many bytes. */
static int ask_in_http(uint32_t bytes) {
    struct message body = {.numbers_read = bytes};
    const struct message *content = &body;
    void *state = new_parser();
    return say(((const struct callbacks *)state)->content(&content, NULL));
}

/* Questions in HTTP that come at once (message_library.c). The parser frees all but a line for which it is told so. */
static int ask_at_once(const char *bytes) {
    ssize_t parsed = 0;
    int failed = http_parser_g_parse_request(new_parser(), bytes, &parsed);
    return say(failed) || printf("%zd", parsed) < 0;
}

/* Slurm's command ends its wait unless it gets a message, and then asks whose it is. */
static int wait_for_allocation(struct message *message) {
    int accepted = accept_peer("bytes");
    int failed = slurm_receive_msg(&accepted, message, 0);
    return say(failed) || printf("of %d", (int)auth_g_get_uid(NULL)) < 0;
}

static int split(void) {
    int width = 0;
    return hostlist_split_treewidth(NULL, NULL, &width, 2) != 1 || printf("%d", width) < 0;
}

static int merge(const char *tasks) {
    struct layout sum = {.tasks = 40000}, other = {.tasks = (uint32_t)strtoul(tasks, NULL, 10)};
    slurm_step_layout_merge(&sum, &other);
    return printf("%u", sum.tasks) < 0;
}

static int plan(const char *cpus_per_task) {
    struct task_sizes tasks = {.cpus_per_task = (uint16_t)strtoul(cpus_per_task, NULL, 10)};
    struct plan plan = {.tasks = &tasks};
    return printf("%d", topology_g_eval_nodes(&plan)) < 0;
}

/* "nobody" is a host without an address. A second lookup is like the first. */
static int look_up(char *host) {
    slurm_set_addr(NULL, 0, host);
    slurm_set_addr(NULL, 0, host);
    return 0;
}

/* Records of so many steps, of one version of Slurm; a step that waits has none. */
static int keep_steps(const char *count, const char *version) {
    int job = 0, kept = 0;
    for (unsigned long left = strtoul(count, NULL, 10); left; left--)
        kept += create_step_record(&job, (uint16_t)strtoul(version, NULL, 10)) != NULL;
    return printf("%d", kept) < 0;
}

int main(int argc, char *argv[]) {
    static unsigned char onward[] = {45, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    static unsigned char results[] = {45, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    if (argc != 5)
        return 2;
    if (!strcmp(argv[4], "lists"))
        return list(argv[3]);
    if (!strcmp(argv[4], "receives"))
        return receive(argv[3]);
    if (!strcmp(argv[4], "http"))
        return ask_in_http((uint32_t)strtoul(argv[3], NULL, 10));
    if (!strcmp(argv[4], "questions"))
        return ask_at_once(argv[3]);
    if (!strcmp(argv[4], "splits"))
        return split();
    if (!strcmp(argv[4], "merges"))
        return merge(argv[3]);
    if (!strcmp(argv[4], "plans"))
        return plan(argv[3]);
    if (!strcmp(argv[4], "changes"))
        return say(!change_job((uint32_t)strtoul(argv[2], NULL, 10), argv[3]));
    if (!strcmp(argv[4], "looks up"))
        return look_up(argv[3]);
    if (!strcmp(argv[4], "steps"))
        return keep_steps(argv[3], argv[1]);
    if (!strcmp(argv[4], "tells"))
        return slurm_send_only_node_msg(
            &(struct to_send){.reader = (uid_t)strtol(argv[2], NULL, 10), .is_for_one = !strcmp(argv[3], "of one")});
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
    if (!strcmp(argv[3], "sluid")) {
        static unsigned char step[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
        message.data = step;
        message.size = sizeof(step);
    }
    if (strstr(argv[3], "accounting")) {
        static unsigned char counts[] = {0};
        counts[0] = strcmp(argv[3], "no accounting") != 0;
        message.data = counts;
        message.size = sizeof(counts);
    }
    if (!strcmp(argv[3], "results")) {
        message.data = results;
        message.size = sizeof(results);
    }
    if (!strcmp(argv[4], "asked of several"))
        return say(!slurm_receive_msgs(&message, 0, 0));
    if (!strcmp(argv[4], "asked slurmd of energy"))
        return say(slurm_get_node_energy(NULL, 0, 0, NULL, &message));
    if (!strcmp(argv[4], "asked slurmctld"))
        return say(slurm_send_recv_controller_msg(NULL, &message, NULL));
    if (!strcmp(argv[4], "peers"))
        return serve_peers(&message, argv[1], argv[3]);
    if (!strcmp(argv[4], "connects"))
        return connect_peer(&message, strchr(argv[1], ':') + 1);
    if (!strcmp(argv[4], "attach"))
        return say(stepd_attach(0, 0, 0, NULL, NULL, NULL, argv[3][0] ? key : NULL, 0, NULL));
    if (!strcmp(argv[4], "answers"))
        return answer_peers(argv[1], argv[3]);
    if (!strcmp(argv[4], "silent"))
        return refuse_silent(argv[1]);
    if (!strcmp(argv[4], "first"))
        return send_first(argv[1], argv[3]);
    if (!strcmp(argv[4], "waits"))
        return wait_for_allocation(&message);
    int accepted = strcmp(argv[4], "accepted") != 0 ? -1 : accept_peer("bytes");
    int failed = asks            ? slurm_receive_msg(NULL, &message, 0)
                 : accepted >= 0 ? eio_message_socket_accept(&message, &accepted)
                                 : slurm_unpack_msg_and_forward(&message, NULL, 0, &message);
    printf("%s http=%d\n", failed ? "refused" : "read", http_switch_http_enabled());
    return 0;
}
