/* Keeps slurmctld from waiting for a host that nobody knows.
 *
 * A step's request says where its srun listens. slurmctld looks that name up when the step ends, is cancelled or may
 * start, under the lock of all jobs. Slurm (26.05.5) asks ten times for a name that it does not find, a second apart,
 * and answers nobody meanwhile. srun of a login node sends its pod's name, which may have no address. A user's own
 * client sends any name. Here slurmctld asks once. step_guard.c and job_submit_jail.c refuse names that DNS outside of
 * the cluster would have to answer. */
#include "message_guard.h"
#include "slurm_functions.h"

#include <netdb.h>
#include <unistd.h>

static void (*real_address)(void *, uint16_t, char *);
static int (*real_lookup)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
static unsigned (*real_sleep)(unsigned);
static __thread struct {
    bool is_once;
    int failed;
} lookup;

void slurm_set_addr(void *address, uint16_t port, char *host) {
    lookup.is_once = guard_is_controller();
    real_address(address, port, host);
    lookup.is_once = false;
    lookup.failed = 0;
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *req, struct addrinfo **pai) {
    if (lookup.failed)
        return lookup.failed;
    int failed = real_lookup(name, service, req, pai);
    if (lookup.is_once)
        lookup.failed = failed;
    return failed;
}

unsigned sleep(unsigned seconds) {
    return lookup.is_once ? 0 : real_sleep(seconds);
}

void lookups_find(void) {
    *(void **)&real_address = guard_find("slurm_set_addr");
    *(void **)&real_lookup = guard_find("getaddrinfo");
    *(void **)&real_sleep = guard_find("sleep");
}
