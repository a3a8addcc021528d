/* Runs programs for slurmstepd after its tasks; see late_program.h. It is a process of the job's user, inside of the
 * job. It ends with slurmstepd, which has the other end of LATE_DESCRIPTOR. Static: it starts in the users' root. */
#include "late_program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

struct request {
    struct late_request head;
    char *words, **list; /* folder, path, arguments, NULL, environment, NULL */
};

static bool receive(int descriptors[LATE_DESCRIPTORS]) {
    char word;
    size_t size = LATE_DESCRIPTORS * sizeof(int);
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(LATE_DESCRIPTORS * sizeof(int))];
    struct iovec part = {.iov_base = &word, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    if (recvmsg(LATE_DESCRIPTOR, &message, MSG_CMSG_CLOEXEC) != 1)
        return false;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(size))
        return false;
    memcpy(descriptors, CMSG_DATA(header), size);
    return true;
}

static bool read_all(int file, void *bytes, size_t size) {
    return recv(file, bytes, size, MSG_WAITALL) == (ssize_t)size;
}

/* Splits the request into its words, each of which has to end within it. */
static bool split(struct request *request) {
    size_t number = 2 + (size_t)request->head.arguments + request->head.variables;
    char *word = request->words, *end = word + request->head.size;
    request->list = (char **)calloc(number + 2, sizeof(char *));
    if (!request->list || request->head.size == 0 || end[-1])
        return false;
    size_t place = 0;
    for (size_t i = 0; i < number; i++) {
        if (word >= end)
            return false;
        if (i == 2 + (size_t)request->head.arguments)
            place++;
        request->list[place++] = word;
        word += strlen(word) + 1;
    }
    return true;
}

static bool read_request(int file, struct request *request) {
    *request = (struct request){0};
    if (!read_all(file, &request->head, sizeof(request->head)) || request->head.size > INT32_MAX)
        return false;
    request->words = malloc((size_t)request->head.size + 1);
    return request->words && read_all(file, request->words, request->head.size) && split(request);
}

static _Noreturn void become(const struct request *request, const int descriptors[], int report) {
    sigset_t none;
    char **list = request->list;
    if (!list || !list[0] || !list[1])
        _exit(EXIT_FAILURE);
    setsid();
    for (int i = 0; i < 3; i++)
        dup2(descriptors[1 + i], i);
    close(LATE_DESCRIPTOR);
    if (chdir(list[0])) {
        /* As Slurm does for a task. */
        if (chdir("/tmp"))
            _exit(EXIT_FAILURE);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(list[1], list + 2, list + 2 + request->head.arguments + 1);
    int error = errno;
    if (write(report, &error, sizeof(error)) < 0)
        _exit(EXIT_FAILURE);
    _exit(127);
}

/* Waits for the child, or until the asker ends: slurmstepd may give up earlier. */
static void await(pid_t child, int asker) {
    siginfo_t end;
    struct pollfd waits[] = {{.fd = (int)syscall(SYS_pidfd_open, child, 0), .events = POLLIN},
                             {.fd = asker, .events = POLLIN}};
    while (poll(waits, 2, -1) < 0 && errno == EINTR)
        ;
    if (!(waits[0].revents & POLLIN))
        kill(-child, SIGKILL);
    while (waitid(P_PID, (id_t)child, &end, WEXITED | WNOWAIT) && errno == EINTR)
        ;
    /* While the leader is no more than a zombie, its number is no other group's. */
    kill(-child, SIGKILL);
    close(waits[0].fd);
}

static struct late_answer run(const struct request *request, const int descriptors[]) {
    struct late_answer answer = {0};
    int report[2], error = 0;
    if (pipe2(report, O_CLOEXEC))
        return (struct late_answer){.error = errno};
    pid_t child = fork();
    if (child == 0)
        become(request, descriptors, report[1]);
    answer.error = child < 0 ? errno : 0;
    close(report[1]);
    if (child > 0 && read(report[0], &error, sizeof(error)) == sizeof(error))
        answer.error = error;
    close(report[0]);
    if (child > 0) {
        await(child, descriptors[0]);
        waitpid(child, &answer.status, 0);
    }
    return answer;
}

static void serve(int descriptors[LATE_DESCRIPTORS]) {
    struct request request;
    if (read_request(descriptors[0], &request)) {
        struct late_answer answer = run(&request, descriptors);
        (void)send(descriptors[0], &answer, sizeof(answer), MSG_NOSIGNAL);
    }
    free((void *)request.list);
    free(request.words);
    for (int i = 0; i < LATE_DESCRIPTORS; i++)
        close(descriptors[i]);
}

int main(void) {
    int descriptors[LATE_DESCRIPTORS];
    while (receive(descriptors))
        serve(descriptors);
    return EXIT_SUCCESS;
}
