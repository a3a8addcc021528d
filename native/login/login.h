/* The way of a login session into the jail; sessions (pam_jail.c) and jail probes (jail_probe.c) share it. */
#ifndef PULUMI_SLURM_LOGIN_H
#define PULUMI_SLURM_LOGIN_H

#include "jail.h"

/* Seconds after which it gives up on storage that hangs. */
#define LOGIN_DEADLINE_SECONDS 10

/* Makes the jail the calling process's root and gives up what a user must not have. Returns 0, or -1 with the reason in
 * jail->why; then the process must not become a user's. */
int login_enter(struct jail *jail);

#endif
