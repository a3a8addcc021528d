/* How a login session gets into the jail: one way for sessions (pam_jail.c) and for jail probes (jail_probe.c). */
#ifndef PULUMI_SLURM_LOGIN_H
#define PULUMI_SLURM_LOGIN_H

#include "jail.h"

/* Storage that hangs is given up after so many seconds. */
#define LOGIN_DEADLINE_SECONDS 10

/* Makes the jail the calling process's root and gives up what a user must not have. Returns 0, or -1 with the reason in
 * jail->why; then the process must not become a user's. */
int login_enter(struct jail *jail);

#endif
