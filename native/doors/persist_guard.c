/* slurmdbd's part of message_guard.so: it reads nothing from a connection whose first message names no user.
 *
 * slurmdbd (26.05.5) reads a first message of any type, and answers that the type is wrong. It then takes the next
 * message for that of a known user, and crashes (auth_ids_set). Anybody who reaches its port could do that. With this
 * library it reads from users only the messages of sacct, sreport and sacctmgr. Answers, and messages about jobs and
 * nodes, it reads from Slurm alone. So it does requests for archives, since they name a program that slurmdbd runs, or
 * SQL. Each connection has a thread of its own. Slurm would take a message of up to 1 GiB from each. One user's
 * connections leave threads to others. */
#include "message_guard.h"
#include "slurm_functions.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ACCESS_DENIED 2002 /* ESLURM_ACCESS_DENIED */
#define MOST_OF_STRANGERS ((size_t)1 << 20)
#define MOST_OF_USERS ((size_t)4 << 20)

static const char *const of_users[] = {
    "DBD_GET_",     "DBD_ADD_",        "DBD_MODIFY_",         "DBD_REMOVE_",    "DBD_FINI",
    "DBD_RECONFIG", "DBD_CLEAR_STATS", "DBD_FIX_RUNAWAY_JOB", "DBD_ROLL_USAGE", "DBD_SHUTDOWN",
};
#define ARCHIVE "DBD_ARCHIVE_" /* sacctmgr archive dump and load; Slurm itself takes them from administrators. */

static int (*real_process)(void *, void *, char *, uint32_t, void **, bool);
static ssize_t (*real_recv)(void *, void *, size_t);
static void *(*answer_of)(void *, uint32_t, char *, uint16_t);
static const char *(*name_of)(unsigned type, int exact);
static int (*file_of)(void *);
static void (*forget)(void *);
static __thread struct {
    bool is_known;
    uid_t user;
    int file;
} peer;

static bool is_slurm(void) {
    return peer.is_known && (peer.user == 0 || peer.user == SLURM_ID);
}

/* slurmdbd asks for the rest of a message at once. */
ssize_t conn_g_recv(void *connection, void *bytes, size_t size) {
    if (guard_is_database())
        peer.file = file_of(connection);
    if (!guard_is_database() || is_slurm() || size <= (peer.is_known ? MOST_OF_USERS : MOST_OF_STRANGERS))
        return real_recv(connection, bytes, size);
    fprintf(stderr, "error: refused a message of %zu bytes from uid %d\n", size, peer.is_known ? (int)peer.user : -1);
    errno = EMSGSIZE;
    return -1;
}

static bool may_ask(uint16_t type) {
    if (!peer.is_known || type == PERSIST_INIT)
        return !peer.is_known && type == PERSIST_INIT;
    if (is_slurm())
        return true;
    const char *name = name_of(type, 1);
    for (size_t i = 0; i < sizeof(of_users) / sizeof(of_users[0]); i++)
        if (!strncmp(name, of_users[i], strlen(of_users[i])))
            return true;
    return false;
}

/* sacctmgr prints it. */
static char *why_refused(uint16_t type) {
    static char archive[] = "refused: an archive has slurmdbd run a program or SQL, so ask for it in slurmdbd's pod";
    static char others[] = "refused: not of this user, or before it is known who asks";
    return peer.is_known && !strncmp(name_of(type, 1), ARCHIVE, strlen(ARCHIVE)) ? archive : others;
}

int slurm_persist_conn_process_msg(void *connection, void *message, char *text, uint32_t size, void **answer,
                                   bool first) {
    uint16_t type = 0;
    if (!guard_is_database())
        return real_process(connection, message, text, size, answer, first);
    if (first)
        peer.is_known = false;
    if (size >= sizeof(type))
        memcpy(&type, text, sizeof(type));
    type = ntohs(type);
    if (!may_ask(type)) {
        fprintf(stderr, "error: refused %s from uid %d\n",
                type == PERSIST_INIT ? "REQUEST_PERSIST_INIT" : name_of(type, 1), peer.is_known ? (int)peer.user : -1);
        *answer = answer_of(connection, ACCESS_DENIED, why_refused(type), type);
        return REFUSED;
    }
    int failed = real_process(connection, message, text, size, answer, first);
    if (type != PERSIST_INIT || failed)
        return failed;
    peer.user = guard_sender();
    if (peer.user != NOBODY && !connection_is_for(peer.file, peer.user)) {
        static char busy[] = "refused: users have too many connections to slurmdbd, so try again later";
        fprintf(stderr, "error: refused one more connection of uid %d\n", (int)peer.user);
        *answer = answer_of(connection, ACCESS_DENIED, busy, type);
        forget(message);
        return REFUSED;
    }
    peer.is_known = peer.user != NOBODY;
    return 0;
}

void persist_find(void) {
    *(void **)&real_process = guard_find("slurm_persist_conn_process_msg");
    *(void **)&real_recv = guard_find("conn_g_recv");
    *(void **)&answer_of = guard_find("slurm_persist_make_rc_msg");
    *(void **)&name_of = guard_find("slurmdbd_msg_type_2_str");
    *(void **)&file_of = guard_find("conn_g_get_fd");
    *(void **)&forget = guard_find("slurmdbd_free_msg");
}
