/* Calls the jail library step by step, as named on the command line, and prints what each step said.
 * Usage: jail_steps ROOT STEP... */
#include "jail.h"
#include "job_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const kept[] = {"/proc", NULL};

static const char *outcome(const struct jail *jail, int failed) {
    return failed ? jail->why : "ok";
}

static const char *system_call(int failed) {
    return failed ? strerror(errno) : "ok";
}

static void print_capabilities(void) {
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    if (!status)
        return;
    while (fgets(line, sizeof(line), status))
        if (!strncmp(line, "Cap", 3))
            printf("%s", line);
    fclose(status);
}

static int can_write(const char *path) {
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file >= 0)
        close(file);
    return file < 0 ? -1 : 0;
}

/* The classic way out of a chroot, for who may call chroot: a folder handle outside of a second root, then up. */
static const char *climb(struct jail *jail) {
    struct stat top;
    int outside = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (outside < 0 || mkdir("/tmp/cage", 0755) || chroot("/tmp/cage") || fchdir(outside))
        return strerror(errno);
    for (int i = 0; i < 64; i++)
        if (chdir(".."))
            return strerror(errno);
    if (chroot(".") || stat("/", &top))
        return strerror(errno);
    return top.st_dev == jail->device && top.st_ino == jail->inode ? "still in the jail" : "out";
}

/* Looks a host up again and again, as slurmstepd does while slurmctld is away. */
static const char *resolve(int times) {
    const struct addrinfo one_answer = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *answers = NULL;
    for (int i = 0; i < times; i++)
        if (!getaddrinfo("localhost", NULL, &one_answer, &answers))
            freeaddrinfo(answers);
    return "ok";
}

static void step(struct jail *jail, const char *name) {
    const char *path = strchr(name, '=') ? strchr(name, '=') + 1 : "/";
    const char *said = "unknown step";
    if (!strcmp(name, "check"))
        said = outcome(jail, jail_check(jail));
    else if (!strcmp(name, "enter"))
        said = outcome(jail, jail_enter(jail));
    else if (!strcmp(name, "refuse"))
        said = jail_enter_refusal(jail, kept) ? jail->why : "ok";
    else if (!strcmp(name, "verify"))
        said = outcome(jail, jail_verify(jail));
    else if (!strncmp(name, "within=", 7))
        said = outcome(jail, jail_check_within(jail, (int)strtol(path, NULL, 10)));
    else if (!strcmp(name, "hide"))
        said = unshare(CLONE_NEWNS) ? strerror(errno) : outcome(jail, job_mounts_hide_node(jail, NULL));
    else if (!strcmp(name, "drop"))
        said = outcome(jail, jail_drop_capabilities(jail));
    else if (!strcmp(name, "climb"))
        said = climb(jail);
    else if (!strcmp(name, "preload"))
        jail_preload_nss(), said = "ok";
    else if (!strncmp(name, "chroot=", 7))
        said = system_call(chroot(path) || chdir("/"));
    else if (!strncmp(name, "resolve=", 8))
        said = resolve((int)strtol(path, NULL, 10));
    else if (!strcmp(name, "mount"))
        said = system_call(mount("none", "/", "tmpfs", 0, NULL));
    else if (!strncmp(name, "exists=", 7))
        said = system_call(access(path, F_OK));
    else if (!strncmp(name, "write=", 6))
        said = system_call(can_write(path));
    else if (!strncmp(name, "make=", 5))
        said = system_call(mkdir(path, 0755));
    printf("%s: %s\n", name, said);
}

int main(int argc, char *argv[]) {
    struct jail jail;
    jail_init(&jail, argc > 1 ? argv[1] : JAIL_DEFAULT_ROOT);
    for (int i = 2; i < argc; i++)
        if (!strcmp(argv[i], "caps"))
            print_capabilities();
        else
            step(&jail, argv[i]);
    return 0;
}
