#include "login.h"
#include "confine.h"
#include "job_mounts.h"

#include <stddef.h>

int login_enter(struct jail *jail) {
    if (jail_check_within(jail, LOGIN_DEADLINE_SECONDS) || jail_enter(jail) || job_mounts_hide_node(jail, NULL))
        return -1;
    return confine(jail);
}
