/* Replaces sbcast in the jail. Slurm's own asks each slurmd to write the file: into the pod's root, where no job finds
 * it. Here a step of the job writes it where the job is, even in its own /tmp. It takes Slurm's options; those that
 * tune the transport have no effect. */
#include "contract.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* $1 target, $2 file name if the target is a folder, $3 mode; $4 "force" or empty, $5 modification time or empty. */
#define RECEIVE                                                                                                        \
    "[ -d \"$1\" ] && set -- \"${1%/}/$2\" \"$2\" \"$3\" \"$4\" \"$5\"\n"                                              \
    "f=${1%/*}/; [ \"$f\" = \"$1/\" ] || [ -d \"$f\" ] || {\n"                                                         \
    "echo \"sbcast: DEST $1: $(hostname) has no folder $f: make it first, with srun mkdir -p\" >&2; exit 1; }\n"       \
    "if [ -e \"$1\" ] && [ -z \"$4\" ]; then echo \"sbcast: $1 exists on $(hostname): use --force\" >&2; exit 1; fi\n" \
    "cat > \"$1.sbcast.$$\" && chmod \"$3\" \"$1.sbcast.$$\" && mv -f \"$1.sbcast.$$\" \"$1\" || exit 1\n"             \
    "[ -z \"$5\" ] || touch -d \"@$5\" \"$1\"\n"

struct request {
    unsigned long job;
    const char *source, *target;
    int force, preserve;
};

static int fail(const char *sentence, const char *what) {
    fprintf(stderr, "sbcast: %s: %s\n", what, sentence);
    return EXIT_FAILURE;
}

static int read_request(struct request *request, int argc, char *argv[]) {
    static const struct option options[] = {
        {"compress", optional_argument, NULL, 'C'},  {"exclude", required_argument, NULL, 'x'},
        {"fanout", required_argument, NULL, 'F'},    {"force", no_argument, NULL, 'f'},
        {"jobid", required_argument, NULL, 'j'},     {"preserve", no_argument, NULL, 'p'},
        {"send-libs", optional_argument, NULL, 'L'}, {"size", required_argument, NULL, 's'},
        {"timeout", required_argument, NULL, 't'},   {"treewidth", required_argument, NULL, 'F'},
        {"verbose", no_argument, NULL, 'v'},         {NULL, 0, NULL, 0},
    };
    const char *job = getenv("SLURM_JOB_ID");
    *request = (struct request){0};
    for (int option; (option = getopt_long(argc, argv, "C::F:fj:ps:t:v", options, NULL)) != -1;)
        switch (option) {
        case 'f':
            request->force = 1;
            break;
        case 'j':
            job = optarg;
            break;
        case 'p':
            request->preserve = 1;
            break;
        case 'L':
            if (!optarg || strcmp(optarg, "no") != 0)
                return fail("libraries are not sent: every node sees the same ones", "--send-libs");
            break;
        case '?':
            return -1;
        default:
            break;
        }
    if (argc - optind != 2)
        return fail("wanted are the file and its target: sbcast [OPTIONS] SOURCE DEST", "arguments");
    /* Of JOB.STEP, the job: all its steps on a node share their files. */
    request->job = job ? strtoul(job, NULL, 10) : 0;
    if (!request->job)
        return fail(job ? "not the number of a job" : "not in a job: name one with --jobid",
                    job ? job : "SLURM_JOB_ID");
    request->source = argv[optind];
    request->target = argv[optind + 1];
    return 0;
}

/* Removes the batch step's variables (tasks, memory, GPUs), which are not meant for this step. */
static void forget_step_options(void) {
    for (size_t i = 0; environ[i];) {
        char name[NAME_MAX];
        size_t length = strcspn(environ[i], "=");
        if ((strncmp(environ[i], "SLURM_", 6) != 0 && strncmp(environ[i], "SRUN_", 5) != 0) ||
            !strncmp(environ[i], "SLURM_CONF=", 11) || length >= sizeof(name)) {
            i++;
            continue;
        }
        memcpy(name, environ[i], length);
        name[length] = '\0';
        if (unsetenv(name))
            i++;
    }
}

int main(int argc, char *argv[]) {
    struct request request;
    struct stat facts;
    char job[64], mode[16], seconds[32] = "";
    if (read_request(&request, argc, argv))
        return EXIT_FAILURE;
    int source = open(request.source, O_RDONLY | O_CLOEXEC);
    if (source < 0 || dup2(source, STDIN_FILENO) < 0 || fstat(STDIN_FILENO, &facts))
        return fail(strerror(errno), request.source);
    if (!S_ISREG(facts.st_mode))
        return fail("not a regular file", request.source);
    snprintf(job, sizeof(job), "--jobid=%lu", request.job);
    snprintf(mode, sizeof(mode), "%04o", facts.st_mode & 07777);
    if (request.preserve)
        snprintf(seconds, sizeof(seconds), "%lld", (long long)facts.st_mtime);
    const char *slash = strrchr(request.source, '/');
    const char *name = slash ? slash + 1 : request.source;
    forget_step_options();
    /* Without a number of tasks, srun starts one on every node of the job. With --ntasks-per-node alone it would use
     * one node. */
    execl(SRUN, "srun", job, "--overlap", "--quiet", "--input=all", "/bin/sh", "-c", RECEIVE, "sbcast", request.target,
          name, mode, request.force ? "force" : "", seconds, (char *)NULL);
    return fail(strerror(errno), SRUN);
}
