/* Stands for libslurmfull's credentials behind message_guard.so: a launch ends in "UID STEP NODE". */
#include "message_probe.h"

#include <stdlib.h>
#include <string.h>

/* NOLINTBEGIN(readability-non-const-parameter): the parameters are Slurm's. */
static struct {
    struct {
        uint64_t sluid;
        uint32_t job, component, step;
    } id;
    uid_t uid;
    char node[256];
} credential;

void *slurm_cred_unpack(void *buffer, uint16_t version) {
    (void)version;
    const char *last = strrchr(((struct message *)buffer)->reading, ':') + 1;
    char *end = NULL;
    credential.uid = (uid_t)strtoul(last, &end, 10);
    credential.id.step = (uint32_t)strtoul(end, &end, 10);
    bool is_whole = *end == ' ' && strlen(end) <= sizeof(credential.node);
    if (is_whole)
        memcpy(credential.node, end + 1, strlen(end));
    return is_whole ? &credential : NULL;
}

void *slurm_cred_verify(void *signed_one) {
    return credential.node[0] == '?' ? NULL : signed_one;
}

void slurm_cred_get_mem(void *signed_one, char *node, const char *function, uint64_t *of_job, uint64_t *of_step) {
    (void)signed_one;
    (void)function;
    (void)of_step;
    if (!strcmp(node, credential.node))
        *of_job = 0;
}

bool read_credential(void *buffer) {
    return slurm_cred_unpack(buffer, 0) != NULL;
}
/* NOLINTEND(readability-non-const-parameter) */
