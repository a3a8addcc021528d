#include "late_program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Keeps none of the task's descriptors: a reader of its output waits until all copies are closed. */
static _Noreturn void become_runner(int channel) {
    char *const arguments[] = {"late_runner", NULL}, *const environment[] = {NULL};
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    int clear = fcntl(channel, F_DUPFD, LATE_DESCRIPTOR + 1);
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (clear >= 0 && nothing >= 0 && setsid() >= 0 && dup2(nothing, 0) == 0 && dup2(nothing, 1) == 1 &&
        dup2(nothing, 2) == 2 && dup2(clear, LATE_DESCRIPTOR) == LATE_DESCRIPTOR &&
        !syscall(SYS_close_range, LATE_DESCRIPTOR + 1, ~0U, 0))
        syscall(SYS_execve, LATE_RUNNER, arguments, environment);
    _exit(EXIT_FAILURE);
}

int late_start_runner(struct jail *jail, int channel) {
    int status = 0;
    pid_t between = fork();
    if (between < 0)
        return jail_fail_errno(jail, "start " LATE_RUNNER);
    /* The runner is no child of the user's program, which may wait for all of its own. */
    if (between == 0) {
        pid_t runner = fork();
        if (runner == 0)
            become_runner(channel);
        _exit(runner < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
    }
    while (waitpid(between, &status, 0) < 0)
        if (errno != EINTR)
            return jail_fail_errno(jail, "start " LATE_RUNNER);
    return status ? jail_fail(jail, "start %s: no process left", LATE_RUNNER) : 0;
}

static size_t count(char *const words[]) {
    size_t number = 0;
    while (words[number])
        number++;
    return number;
}

static size_t size_of(char *const words[]) {
    size_t size = 0;
    for (size_t i = 0; words[i]; i++)
        size += strlen(words[i]) + 1;
    return size;
}

static char *append(char *end, char *const words[]) {
    for (size_t i = 0; words[i]; i++)
        end = stpcpy(end, words[i]) + 1;
    return end;
}

static int write_all(int file, const void *bytes, size_t size) {
    const char *next = bytes;
    while (size) {
        ssize_t written = send(file, next, size, MSG_NOSIGNAL);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return -1;
        next += written;
        size -= (size_t)written;
    }
    return 0;
}

static int send_descriptors(int channel, int answer) {
    char word = 0;
    const int descriptors[LATE_DESCRIPTORS] = {answer, 0, 1, 2};
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(descriptors))] = {0};
    struct iovec part = {.iov_base = &word, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(descriptors));
    memcpy(CMSG_DATA(header), descriptors, sizeof(descriptors));
    return sendmsg(channel, &message, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

static int ask(int channel, int answer, const void *words, const struct late_request *request, int ours) {
    if (send_descriptors(channel, answer))
        return -1;
    close(answer);
    return write_all(ours, request, sizeof(*request)) || write_all(ours, words, request->size) ? -1 : 0;
}

static _Noreturn void end_as(int status) {
    if (!WIFSIGNALED(status))
        _exit(WEXITSTATUS(status));
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
    _exit(128 + WTERMSIG(status));
}

int late_program(struct jail *jail, int channel, const char *path, char *const arguments[], char *const environment[]) {
    char folder[PATH_MAX] = "/";
    int pair[2];
    struct late_answer answer = {0};
    if (!getcwd(folder, sizeof(folder)) || folder[0] != '/')
        strcpy(folder, "/");
    char *const first[] = {folder, (char *)path, NULL};
    size_t size = size_of(first) + size_of(arguments) + size_of(environment);
    struct late_request request = {
        .size = (uint32_t)size, .arguments = (uint32_t)count(arguments), .variables = (uint32_t)count(environment)};
    char *words = size > INT32_MAX ? NULL : malloc(size);
    if (!words || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
        free(words);
        errno = ENOMEM;
        return -1;
    }
    append(append(append(words, first), arguments), environment);
    int asked = ask(channel, pair[1], words, &request, pair[0]);
    free(words);
    ssize_t had = asked ? 0 : recv(pair[0], &answer, sizeof(answer), MSG_WAITALL);
    close(pair[0]);
    errno = 0;
    if (had != sizeof(answer))
        return jail_fail(jail, "what was to run it inside the job has ended with the job's processes");
    if (!answer.error)
        end_as(answer.status);
    errno = answer.error;
    return -1;
}
