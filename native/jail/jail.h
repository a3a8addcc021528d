/* The jail: a root file system on a shared volume, the root of every job step and login session.
 *
 * The pod's entry point builds the node's view of it once, as a tree of mounts (slurm_node/jail/tree.py). This library
 * only enters that tree, and gives up what a user's process must never hold. The SPANK plugin, the PAM module, the
 * replacement of su, and job_init use it. So a job and a login see the same root. */
#ifndef PULUMI_SLURM_JAIL_H
#define PULUMI_SLURM_JAIL_H

#include "contract.h"

#include <stdbool.h>
#include <sys/types.h>

/* Each line of JAIL_MARKER names a path of the jail that has to be a mount. The entry point writes the file last, on
 * the tree's own tmpfs. On the shared volume, one node's marker would count for all. */

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

/* The same, in a process of its own. Gives up after this many seconds, and leaves that process behind. */
int jail_check_within(struct jail *jail, int seconds);

/* Kills a child and waits for its end, for at most this many milliseconds. A child that hangs with the storage is left
 * behind; the signal reaches it when the storage answers again. */
void jail_end_child(pid_t child, int milliseconds);

/* Checks, then makes the tree the root of the calling thread in a mount namespace of its own. */
int jail_enter(struct jail *jail);

/* Accepts the caller's root, which it entered by joining a namespace, as the jail's. */
int jail_adopt_root(struct jail *jail);

/* Enters an empty read-only root, so that a step that must not run can still report to its user. keep: the only folders
 * in it, those that the caller needs; ended by NULL. jail->why stays unless this fails too. */
int jail_enter_refusal(struct jail *jail, const char *const keep[]);

/* Checks that the root of this process is the tree that it entered. */
int jail_verify(struct jail *jail);

/* Keeps only the capabilities that root in a job needs to administrate the jail (packages, users, files). The others
 * leave the bounding, permitted, effective, inheritable and ambient sets, so no exec brings them back. */
int jail_drop_capabilities(struct jail *jail);

/* Loads the libraries that glibc would otherwise load later, from the users' root. Reads nsswitch.conf, too: glibc does
 * not read it again after "/" has changed. From then on no nscd answers questions about hosts. */
void jail_preload_nss(void);

/* Loads libgcc_s, which glibc loads by its name when a thread ends or is cancelled. In slurmstepd, stepd_unwinder.c has
 * it loaded then. */
void jail_preload_unwinder(void);

/* Makes the C library look up users in the files of the current root from now on. It loads no module for that. */
void jail_look_users_up_in_files(void);

/* Puts a sentence into jail->why and returns -1; the second one adds errno's words. */
__attribute__((format(printf, 2, 3))) int jail_fail(struct jail *jail, const char *format, ...);
int jail_fail_errno(struct jail *jail, const char *what);

#endif
