/* Limits of each user's resources on a login node. */
#ifndef PULUMI_SLURM_USER_LIMITS_H
#define PULUMI_SLURM_USER_LIMITS_H

#include "jail.h"

/* slurm_node/accounts/login_limits.py writes USER_LIMITS and documents its lines. */

/* Puts the calling process into the user's own control groups, made if missing, and sets its limits. Its children stay
 * there. Returns 0, or -1 with the reason in jail->why: a rule that can't be kept lets nobody in. */
int user_limits_apply(struct jail *jail, const char *rules, uid_t uid);

#endif
