/* Checks the jail on its storage, in a process of its own. A process that hangs in the kernel can't be killed: it is
 * left behind, and the step or daemon that asked goes on. */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define END_MILLISECONDS 50

struct answer {
    int failed;
    dev_t device;
    ino_t inode;
    char why[sizeof(((struct jail *)0)->why)];
};

static int answer_for(const struct jail *jail, int channel) {
    struct jail asked = *jail;
    struct answer answer;
    memset(&answer, 0, sizeof(answer));
    answer.failed = jail_check(&asked);
    answer.device = asked.device;
    answer.inode = asked.inode;
    memcpy(answer.why, asked.why, sizeof(answer.why));
    return write(channel, &answer, sizeof(answer)) == sizeof(answer) ? 0 : 1;
}

static int hear(struct jail *jail, int channel, int seconds) {
    struct pollfd wait = {.fd = channel, .events = POLLIN};
    struct answer answer;
    int ready;
    do
        ready = poll(&wait, 1, seconds * 1000);
    while (ready < 0 && errno == EINTR);
    if (ready == 0)
        return jail_fail(jail, "%s did not answer within %d s: the shared storage hangs", jail->root, seconds);
    if (ready < 0 || read(channel, &answer, sizeof(answer)) != sizeof(answer))
        return jail_fail(jail, "%s: the process that looks at it ended without an answer", jail->root);
    jail->device = answer.device;
    jail->inode = answer.inode;
    return answer.failed ? jail_fail(jail, "%s", answer.why) : 0;
}

void jail_end_child(pid_t child, int milliseconds) {
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, child, 0), .events = POLLIN};
    int ended;
    kill(child, SIGKILL);
    do
        ended = end.fd < 0 ? 0 : poll(&end, 1, milliseconds);
    while (ended < 0 && errno == EINTR);
    waitpid(child, NULL, WNOHANG);
    if (end.fd >= 0)
        close(end.fd);
}

int jail_check_within(struct jail *jail, int seconds) {
    int channel[2];
    if (pipe2(channel, O_CLOEXEC))
        return jail_fail_errno(jail, "make a pipe");
    pid_t prober = fork();
    if (prober == 0)
        _exit(answer_for(jail, channel[1]));
    close(channel[1]);
    if (prober < 0) {
        close(channel[0]);
        return jail_fail_errno(jail, "start a process that looks at the jail");
    }
    int outcome = hear(jail, channel[0], seconds);
    close(channel[0]);
    jail_end_child(prober, END_MILLISECONDS);
    return outcome;
}
