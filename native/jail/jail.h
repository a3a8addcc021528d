/* The jail: a root file system on a shared volume, the root of every job step and login session.
 *
 * The pod's entry point builds the node's view of it once, as a tree of mounts (slurm_node/jail/tree.py). This library
 * only enters that tree, and gives up what a user's process must never hold. The SPANK plugin, the PAM module, the su
 * replacement and job_init of a job's namespaces use it. So a job and a login see the same thing. */
#ifndef PULUMI_SLURM_JAIL_H
#define PULUMI_SLURM_JAIL_H

#include <stdbool.h>
#include <sys/types.h>

#define JAIL_DEFAULT_ROOT "/run/jail"
/* Written last by the entry point, on the tree's own tmpfs. On the shared volume another node's would do.
 * Each of its lines names a path of the jail that has to be a mount. */
#define JAIL_MARKER "run/.jail-ready"

enum jail_state { JAIL_OUTSIDE, JAIL_ENTERED, JAIL_REFUSED };

struct jail {
    const char *root;      /* where the tree stands in the pod; borrowed */
    enum jail_state state; /* JAIL_REFUSED: in an empty read-only root, where no user code may start */
    dev_t device;          /* identity of the tree's root folder */
    ino_t inode;
    char why[512]; /* one sentence about the last failure */
};

void jail_init(struct jail *jail, const char *root);

/* Each returns 0, or -1 with the reason in jail->why. */

/* Looks whether the tree is complete; changes nothing. Hangs with the storage: jail_check_within does not. */
int jail_check(struct jail *jail);

/* The same, asked by a process that is left alone if it has not answered after so many seconds. */
int jail_check_within(struct jail *jail, int seconds);

/* Ends a child and waits for its end, but not for ever. One that hangs with the storage is left behind; the signal
 * reaches it when the storage answers again. */
void jail_end_child(pid_t child, int milliseconds);

/* Checks, then makes the tree the root of the calling thread in a mount namespace of its own. */
int jail_enter(struct jail *jail);

/* Takes the root that the caller has entered by joining a namespace for the jail's. */
int jail_adopt_root(struct jail *jail);

/* Enters an empty read-only root that has only the folders of `keep` (ended by NULL), which the caller itself works
 * with. So a step which must not run can still report to its user. jail->why stays unless this fails too. */
int jail_enter_refusal(struct jail *jail, const char *const keep[]);

/* Is the root of this process the tree that was entered? */
int jail_verify(struct jail *jail);

/* Keeps only the capabilities that root in a job needs to administrate the jail (packages, users, files). The others
 * leave the bounding, permitted, effective, inheritable and ambient sets, so no exec brings them back. */
int jail_drop_capabilities(struct jail *jail);

/* Loads what glibc would otherwise load by path later, when that path belongs to the users' root. It reads
 * nsswitch.conf too, which glibc does not again once "/" is another folder. */
void jail_preload_nss(void);

/* From now on users are looked up in the files of whatever root there is. Code in the C library itself does it, so that
 * no module is loaded. */
void jail_look_users_up_in_files(void);

/* Puts a sentence into jail->why and returns -1; the second one adds errno's words. */
__attribute__((format(printf, 2, 3))) int jail_fail(struct jail *jail, const char *format, ...);
int jail_fail_errno(struct jail *jail, const char *what);

#endif
