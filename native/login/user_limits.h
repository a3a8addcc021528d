/* What one user may use of a login node. */
#ifndef PULUMI_SLURM_USER_LIMITS_H
#define PULUMI_SLURM_USER_LIMITS_H

#include "jail.h"

/* Written by slurm_node/accounts/login_limits.py, which says what stands in it. */
#define USER_LIMITS "/run/slurm-node/login-limits"

/* Puts the calling process into the user's own control groups, made if missing, and sets its limits. What it forks
 * stays there. Returns 0, or -1 with the reason in jail->why: a rule that can't be kept lets nobody in. */
int user_limits_apply(struct jail *jail, const char *rules, uid_t uid);

#endif
