/* Stands for how slurmctld speaks to sruns, and for its records of steps, behind message_guard.so. */
#include "message_probe.h"

#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TRIES 10
#define TIMEOUT 100 /* Milliseconds. */

static int lookups, slept, records;

int getaddrinfo(const char *name, const char *service, const struct addrinfo *req, struct addrinfo **pai) {
    (void)service;
    (void)req;
    (void)pai;
    lookups++;
    return strcmp(name, "nobody") ? 0 : EAI_NONAME;
}

unsigned sleep(unsigned seconds) {
    slept += (int)seconds;
    return 0;
}

/* Debian's Slurm tries again, a second later. */
void slurm_set_addr(void *address, uint16_t port, char *host) {
    (void)address;
    (void)port;
    for (int i = 0; i < TRIES && getaddrinfo(host, NULL, NULL, NULL); i++)
        sleep(1);
    printf("%d %d ", lookups, slept);
}

/* Connects to a host that is silent. */
int slurm_send_only_node_msg(struct to_send *message) {
    struct timespec before, after;
    (void)message;
    clock_gettime(CLOCK_MONOTONIC, &before);
    poll(NULL, 0, TIMEOUT);
    clock_gettime(CLOCK_MONOTONIC, &after);
    long milliseconds = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
    return printf("%s", milliseconds < TIMEOUT ? "briefly" : "long") < 0;
}

void *create_step_record(void *job, uint16_t version) {
    static void (*volatile append)(void *, void *) = list_append;
    (void)version;
    records++;
    append(&records, job);
    return job;
}

int list_count(void *list) {
    return *(int *)list;
}

int list_delete_ptr(void *list, void *item) {
    (void)item;
    return --*(int *)list;
}
