/* Keeps a container of any image alive: the pod's populate container reads its root file system as /proc/PID/root.
 * Static: it needs no file of the image. Usage: pause FILE. It writes its process id to FILE. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int write_pid(const char *path) {
    char aside[4096];
    int length = snprintf(aside, sizeof(aside), "%s.new", path);
    if (length < 0 || (size_t)length >= sizeof(aside)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    FILE *file = fopen(aside, "w");
    if (!file)
        return -1;
    int failed = fprintf(file, "%ld\n", (long)getpid()) < 0;
    failed |= fclose(file) != 0;
    /* Renamed, so that a reader never sees half a number. */
    return failed ? -1 : rename(aside, path);
}

int main(int argc, char *argv[]) {
    sigset_t ends;
    int received;
    if (argc != 2) {
        fprintf(stderr, "usage: pause FILE\n");
        return 2;
    }
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    /* Blocked before the pid is published: a signal that arrives in between waits for sigwait. */
    sigprocmask(SIG_BLOCK, &ends, NULL);
    if (write_pid(argv[1])) {
        fprintf(stderr, "pause: %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    return sigwait(&ends, &received) ? 1 : 0;
}
