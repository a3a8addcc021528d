/* PAM session module for sshd: a login has the jail as its root, as a job step has.
 *
 *   session required pam_jail.so /run/jail
 *
 * Before that, the session gets the user's limits, which all sessions of a user on this node share. sshd opens the
 * session before it forks the user's process. So shell, sftp, pty and forwarding are all in the jail. */
#include "login.h"
#include "user_limits.h"

#include <pwd.h>
#include <security/pam_ext.h>
#include <security/pam_modules.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <syslog.h>

static int refuse(pam_handle_t *pamh, const struct jail *jail) {
    pam_syslog(pamh, LOG_ERR, "refusing a login outside the jail: %s", jail->why);
    pam_error(pamh, "This login node can't enter the jail: %s. Tell your administrator.", jail->why);
    return PAM_SESSION_ERR;
}

static int limit_user(struct jail *jail, pam_handle_t *pamh) {
    const char *name = NULL;
    const struct passwd *user = pam_get_user(pamh, &name, NULL) == PAM_SUCCESS ? getpwnam(name) : NULL;
    return user ? user_limits_apply(jail, USER_LIMITS, user->pw_uid) : jail_fail(jail, "who is this user?");
}

int pam_sm_open_session(pam_handle_t *pamh, int flags, int argc, const char **argv) {
    struct jail jail;
    (void)flags;
    jail_init(&jail, argc > 0 ? argv[0] : JAIL_DEFAULT_ROOT);
    jail_preload_nss();
    jail_preload_unwinder();
    /* This process has the host keys in its memory and no capability that root in the jail lacks. */
    int failed = prctl(PR_SET_DUMPABLE, 0) ? jail_fail_errno(&jail, "close sshd's memory") : 0;
    failed = failed || limit_user(&jail, pamh) || login_enter(&jail);
    /* Only inside: after a refused login, sshd looks up the user once more to tell him why. */
    if (jail.state == JAIL_ENTERED)
        jail_look_users_up_in_files();
    return failed ? refuse(pamh, &jail) : PAM_SUCCESS;
}

int pam_sm_close_session(pam_handle_t *pamh, int flags, int argc, const char **argv) {
    (void)pamh;
    (void)flags;
    (void)argc;
    (void)argv;
    return PAM_SUCCESS;
}
