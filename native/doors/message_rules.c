/* Says which of Slurm's programs this is, and whose messages it reads, for message_guard.c. */
#include "message_guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define FORWARD 5029 /* REQUEST_FORWARD_DATA */
#define REQUEST "REQUEST_"
#define NODES 6001 /* From here on types are between nodes and clients. */

/* The messages of srun, sattach, sstat, scancel and scontrol to a node, as their user (tests/witness/messages). */
static const uint16_t for_users[] = {
    2013, /* REQUEST_JOB_ID */
    5019, /* REQUEST_JOB_STEP_STAT */
    5024, /* REQUEST_DAEMON_STATUS */
    5027, /* REQUEST_JOB_STEP_PIDS */
    6004, /* REQUEST_SIGNAL_TASKS */
    6006, /* REQUEST_TERMINATE_TASKS */
    6007, /* REQUEST_REATTACH_TASKS */
    LAUNCH,
};

/* SlurmUser's alone, by how their names begin; the later ones hold messages of any type. */
static const char *const of_slurm[] = {"REQUEST_TRIGGER_",      "REQUEST_DBD_RELAY", "REQUEST_SIB_",
                                       "REQUEST_CTLD_MULT_MSG", "REQUEST_SEND_DEP",  "REQUEST_UPDATE_ORIGIN_DEP"};

static const char *(*name_of)(unsigned type);
static bool has_pmi2;
static enum { NODE, CONTROLLER, CLIENT, DATABASE } role;
static const struct {
    const char *name;
    int role;
} programs[] = {{"slurmd", NODE},   {"slurmctld", CONTROLLER}, {"slurmdbd", DATABASE}, {"srun", CLIENT},
                {"salloc", CLIENT}, {"sattach", CLIENT},       {"swait", CLIENT}};

static bool goes_to_a_node(uint16_t type) {
    for (size_t i = 0; i < sizeof(for_users) / sizeof(for_users[0]); i++)
        if (for_users[i] == type)
            return true;
    return has_pmi2 && type == FORWARD;
}

static bool goes_to_slurmctld(uint16_t type) {
    const char *name = name_of(type);
    for (size_t i = 0; i < sizeof(of_slurm) / sizeof(of_slurm[0]); i++)
        if (!strncmp(name, of_slurm[i], strlen(of_slurm[i])))
            return false;
    return !strncmp(name, REQUEST, strlen(REQUEST)) && type < NODES;
}

bool may_send(uid_t uid, uint16_t type) {
    if (uid == 0 || uid == SLURM_ID)
        return true;
    if (uid == NOBODY)
        return false;
    if (role == CLIENT)
        return uid == getuid();
    if (role == DATABASE)
        return type == PERSIST_INIT;
    return role == NODE ? goes_to_a_node(type) : goes_to_slurmctld(type);
}

bool guard_is_node(void) {
    return role == NODE;
}

bool guard_is_database(void) {
    return role == DATABASE;
}

bool guard_is_controller(void) {
    return role == CONTROLLER;
}

bool guard_is_client(void) {
    return role == CLIENT;
}

/* slurmd executes itself anew for each new configuration, so one look is enough. */
static bool names_pmi2(const char *path) {
    char *line = NULL;
    size_t size = 0;
    bool is_named = false;
    FILE *file = fopen(path, "re");
    while (file && !is_named && getline(&line, &size, file) >= 0)
        is_named = !strncasecmp(line, "PluginDir", strlen("PluginDir")) && strstr(line, PMI2_FOLDER);
    free(line);
    if (file)
        fclose(file);
    return is_named;
}

void rules_find(void) {
    const char *configuration = getenv("SLURM_CONF");
    char program[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    program[length < 0 ? 0 : length] = '\0';
    const char *slash = strrchr(program, '/');
    /* An unknown program gets a node's rules, since those are the strictest. */
    for (size_t i = 0; slash && i < sizeof(programs) / sizeof(programs[0]); i++)
        if (!strcmp(slash + 1, programs[i].name))
            role = programs[i].role;
    name_of = (__typeof__(name_of))guard_find("rpc_num2string");
    has_pmi2 = names_pmi2(configuration && configuration[0] ? configuration : SLURM_CONFIGURATION);
}
