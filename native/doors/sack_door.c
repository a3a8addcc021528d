/* The jail's way to Slurm's authentication: stands at /run/slurm/sack.socket in jobs and logins.
 *
 *   sack_door LISTEN REAL
 *
 * The real socket (slurmd's or sackd's) gives a token for the id that connects. Slurm trusts any token of uid 0 or
 * SlurmUser as its own. Root in the jail has both ids. So the door refuses a connection from either id, from
 * slurmrestd's, or from that which means nobody to Slurm. For any other id a child becomes that user for good, and
 * passes the connection on: the real socket then sees the same id as its peer. */
#include "contract.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef DOOR_SECONDS
#define DOOR_SECONDS 20
#endif
/* Limits of connections that are served at once, in all and per user: one user cannot shut out the others. More of them
 * wait, as a user's hundred `srun` do at once. */
#define ALL 256
#define OF_ONE 64
#define ALL_WAITING 2048
#define WAITING_OF_ONE 512
#define BACKLOG 512
#define LOOK_MILLISECONDS 1000
/* Of a question. The longest holds a user's token, with all his groups. Slurm would keep up to 4 GiB of each
 * connection. */
#define MOST_ASKED ((ssize_t)256 << 10)
#define NO_VAL 0xfffffffeU

struct guest {
    pid_t child;
    uid_t uid;
};

struct waiting {
    int peer;
    struct ucred who;
    time_t until;
};

static struct guest guests[ALL];
static struct waiting queue[ALL_WAITING];
static size_t waits;

static _Noreturn void fail(const char *what) {
    fprintf(stderr, "sack_door: %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

static struct sockaddr_un address_of(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        fail(path);
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    return address;
}

/* Binds the socket under another name and renames it, so that its name always leads to a door that answers. */
static int listen_at(const char *path) {
    char aside[sizeof(((struct sockaddr_un *)0)->sun_path)];
    if ((size_t)snprintf(aside, sizeof(aside), "%s.new", path) >= sizeof(aside)) {
        errno = ENAMETOOLONG;
        fail(path);
    }
    struct sockaddr_un address = address_of(aside);
    int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (door < 0 || (unlink(aside) && errno != ENOENT) ||
        bind(door, (const struct sockaddr *)&address, sizeof(address)) || chmod(aside, 0777) || listen(door, BACKLOG) ||
        rename(aside, path))
        fail(path);
    return door;
}

/* Slurm gives NO_VAL to each user whose number it does not know, administrators among them: it would take that number
 * for one of theirs (26.05, assoc_mgr_get_admin_level). */
static bool is_refused(uid_t uid) {
    return uid == 0 || uid == SLURM_ID || uid == SLURMREST_ID || uid == NO_VAL;
}

static bool write_all(int to, const char *bytes, ssize_t length) {
    while (length > 0) {
        ssize_t written = send(to, bytes, (size_t)length, MSG_NOSIGNAL);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        bytes += written;
        length -= written;
    }
    return true;
}

/* Passes bytes in both directions until the real socket closes; it sends nothing after the peer has gone. */
static void pass_on(int peer, int real) {
    char bytes[16384];
    ssize_t left = MOST_ASKED;
    struct pollfd both[] = {{.fd = peer, .events = POLLIN}, {.fd = real, .events = POLLIN}};
    for (;;) {
        if (poll(both, 2, -1) < 0)
            return;
        if (both[1].revents) {
            ssize_t length = read(real, bytes, sizeof(bytes));
            if (length <= 0 || !write_all(peer, bytes, length))
                return;
        }
        if (both[0].revents) {
            ssize_t length = read(peer, bytes, sizeof(bytes));
            left -= length;
            if (length < 0 || left < 0 || (length > 0 && !write_all(real, bytes, length)))
                return;
            if (length == 0) {
                shutdown(real, SHUT_WR);
                both[0].fd = -1;
            }
        }
    }
}

static _Noreturn void serve(int peer, const struct ucred *who, const char *path) {
    struct sockaddr_un address = address_of(path);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    alarm(DOOR_SECONDS);
    /* Others' connections, too: whoever is sent away would else wait for this child. */
    if ((peer > STDERR_FILENO + 1 && syscall(SYS_close_range, STDERR_FILENO + 1, peer - 1, 0)) ||
        syscall(SYS_close_range, peer + 1, ~0U, 0))
        _exit(EXIT_FAILURE);
    if (setgroups(0, NULL) || setresgid(who->gid, who->gid, who->gid) || setresuid(who->uid, who->uid, who->uid) ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) ||
        prctl(PR_SET_PDEATHSIG, SIGKILL))
        _exit(EXIT_FAILURE);
    int real = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (real < 0 || connect(real, (const struct sockaddr *)&address, sizeof(address)))
        _exit(EXIT_FAILURE);
    pass_on(peer, real);
    _exit(EXIT_SUCCESS);
}

static struct guest *place_for(uid_t uid) {
    struct guest *place = NULL;
    int of_user = 0;
    for (size_t i = 0; i < ALL; i++) {
        if (!guests[i].child)
            place = &guests[i];
        else
            of_user += guests[i].uid == uid;
    }
    return of_user < OF_ONE ? place : NULL;
}

static time_t now(void) {
    struct timespec time = {0};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

/* Starts a child for the connection. Returns true if it has one now. */
static bool is_served(int peer, const struct ucred *who, const char *real) {
    struct guest *place = place_for(who->uid);
    if (!place)
        return false;
    pid_t child = fork();
    if (child == 0)
        serve(peer, who, real);
    if (child > 0)
        *place = (struct guest){.child = child, .uid = who->uid};
    return child > 0;
}

static bool may_wait(uid_t uid) {
    size_t of_user = 0;
    for (size_t i = 0; i < waits; i++)
        of_user += queue[i].who.uid == uid;
    return waits < ALL_WAITING && of_user < WAITING_OF_ONE;
}

static void let_in(int peer, const char *real) {
    struct ucred who;
    socklen_t size = sizeof(who);
    if (getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &who, &size) || is_refused(who.uid) || is_served(peer, &who, real)) {
        close(peer);
    } else if (may_wait(who.uid)) {
        queue[waits++] = (struct waiting){.peer = peer, .who = who, .until = now() + DOOR_SECONDS};
    } else {
        fprintf(stderr, "sack_door: %d connections of user %u wait: refusing one more\n", WAITING_OF_ONE,
                (unsigned)who.uid);
        close(peer);
    }
}

/* Serves whoever waits and has a place now, in the order of their coming. Sends away who waited for too long. */
static void let_waiting_in(const char *real) {
    size_t kept = 0;
    for (size_t i = 0; i < waits; i++) {
        if (now() > queue[i].until || is_served(queue[i].peer, &queue[i].who, real))
            close(queue[i].peer);
        else
            queue[kept++] = queue[i];
    }
    waits = kept;
}

static void reap(void) {
    pid_t child;
    while ((child = waitpid(-1, NULL, WNOHANG)) > 0)
        for (size_t i = 0; i < ALL; i++)
            if (guests[i].child == child)
                guests[i] = (struct guest){0};
}

static int watch_children(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    int ends = sigprocmask(SIG_BLOCK, &set, NULL) ? -1 : signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (ends < 0)
        fail("signals of children");
    return ends;
}

int main(int argc, char *argv[]) {
    struct signalfd_siginfo ended;
    if (argc != 3) {
        fprintf(stderr, "usage: sack_door LISTEN REAL\n");
        return EXIT_FAILURE;
    }
    struct rlimit files;
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    int ends = watch_children(), door = listen_at(argv[1]);
    for (;;) {
        /* With all places taken in the queue as well, a new connection waits in the socket's. */
        struct pollfd both[] = {{.fd = ends, .events = POLLIN},
                                {.fd = waits == ALL_WAITING ? -1 : door, .events = POLLIN}};
        if (poll(both, 2, waits ? LOOK_MILLISECONDS : -1) < 0 && errno != EINTR)
            fail("poll");
        while (read(ends, &ended, sizeof(ended)) > 0)
            ;
        reap();
        let_waiting_in(argv[2]);
        int peer = both[1].revents & POLLIN ? accept4(door, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (peer >= 0)
            let_in(peer, argv[2]);
    }
}
