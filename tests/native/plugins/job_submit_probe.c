/* Plays slurmctld for job_submit_jail.c: a job whose submit line and arguments have so many bytes. A list of numbers
 * has one for each text; a text whose number begins with - is missing. Its variables for prologs come as they are. */
#include <slurm/slurm.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TEXTS 300

int job_submit(job_desc_msg_t *job, uint32_t user, char **sentence);
int job_modify(job_desc_msg_t *job, void *record, uint32_t user, char **sentence);
char *slurm_xstrdup(const char *text);

char *slurm_xstrdup(const char *text) {
    return strdup(text);
}

static char *text_of(const char *bytes) {
    size_t length = strtoul(bytes, NULL, 10);
    char *text = bytes[0] == '-' ? NULL : malloc(length + 1);
    if (text) {
        memset(text, 'a', length);
        text[length] = '\0';
    }
    return text;
}

static uint32_t texts_of(char *list, char **texts, char *(*make)(const char *)) {
    uint32_t count = 0;
    for (char *word = strsep(&list, ","); word && count < MOST_TEXTS; word = strsep(&list, ","))
        texts[count++] = make(word);
    return count;
}

/* An empty text comes as NULL over Slurm's protocol. */
static char *variable_of(const char *word) {
    return word[0] ? strdup(word) : NULL;
}

int main(int argc, char *argv[]) {
    static job_desc_msg_t job;
    static char *texts[2][MOST_TEXTS + 1];
    char *sentence = NULL;
    if (argc != 4)
        return 2;
    if (argv[1][0] == 'c') /* The container's name in its place. */
        job.container = text_of(argv[1] + 1);
    else if (argv[1][0] == 'f') /* Clusters of a federation. */
        job.fed_siblings_viable = strtoul(argv[1] + 1, NULL, 10);
    else if (argv[1][0] == 'n')
        job.contiguous = (uint16_t)strtoul(argv[1] + 1, NULL, 10);
    else if (argv[1][0] == 'o')
        job.overcommit = (uint8_t)strtoul(argv[1] + 1, NULL, 10);
    else if (argv[1][0] == 'k')
        job.kill_on_node_fail = (uint16_t)strtoul(argv[1] + 1, NULL, 10);
    else if (argv[1][0] == 'r')
        job.resp_host = argv[1] + 1;
    else if (argv[1][0] == 'm') /* A change of the job's nodes. */
        job.req_nodes = argv[1] + 1;
    else
        job.submit_line = text_of(argv[1]);
    job.argv = texts[0];
    job.spank_job_env = texts[1];
    job.argc = texts_of(argv[2], job.argv, text_of);
    job.spank_job_env_size = texts_of(argv[3], job.spank_job_env, variable_of);
    bool is_change = argv[1][0] == 'm';
    int failed = is_change ? job_modify(&job, NULL, 1000, &sentence) : job_submit(&job, 1000, &sentence);
    return printf("%s\n", failed ? sentence : "taken") < 0;
}
