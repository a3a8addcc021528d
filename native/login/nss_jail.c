/* The name service of the pods' own programs for the jail's users: "jail" in nsswitch.conf.
 *
 * It reads the account files of /run/jail/etc at each look-up, as libnss-extrausers does. Root of the jail writes them,
 * so it waits for none and reads at most MOST bytes of one. It treats a pipe, a device or an endless file as a missing
 * file. Links end inside of the jail. It skips system users and their names, which are the pod's own. Groups count,
 * such as sudo and video, except root's. */
#include "contract.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <nss.h>
#include <pwd.h>
#include <shadow.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define MOST ((off_t)32 << 20)
#define FIRST_ID 500
#define USERS 100 /* Debian's group of all users. */
/* Names may have these beside letters and digits. Directories have groups with spaces. */
#define OF_USERS "._-@$"
#define OF_GROUPS OF_USERS " "
#ifndef POD_PASSWD
#define POD_PASSWD "/etc/passwd"
#endif
#define EXPORTED __attribute__((visibility("default")))

static FILE *open_file(const char *name) {
    int root = open(JAIL_DEFAULT_ROOT, O_PATH | O_DIRECTORY | O_CLOEXEC), file = -1;
    struct stat facts;
    if (root >= 0) {
        struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                               .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
        /* Opens it with O_PATH first, to learn its type: opening a device has effects. */
        struct open_how look = {.flags = O_PATH | O_CLOEXEC, .resolve = how.resolve};
        int seen = (int)syscall(SYS_openat2, root, name, &look, sizeof(look));
        if (seen >= 0 && !fstat(seen, &facts) && S_ISREG(facts.st_mode))
            file = (int)syscall(SYS_openat2, root, name, &how, sizeof(how));
        if (seen >= 0)
            close(seen);
        close(root);
    }
    if (file >= 0 && !fstat(file, &facts) && S_ISREG(facts.st_mode) && facts.st_size <= MOST) {
        FILE *lines = fdopen(file, "r");
        if (lines)
            return lines;
    }
    if (file >= 0)
        close(file);
    return NULL;
}

/* Refuses the lines of NIS, which glibc reads, too. Slurm passes names on to queries and scripts: so it also refuses
 * those that would be more than a name there. */
static int is_name(const char *name, const char *further) {
    if (!*name || *name == '+' || *name == '-')
        return 0;
    for (const unsigned char *at = (const unsigned char *)name; *at; at++)
        if (*at < 0x80 && !isalnum(*at) && !strchr(further, *at))
            return 0;
    return 1;
}

static int passwd_counts(const struct passwd *entry) {
    return is_name(entry->pw_name, OF_USERS) && entry->pw_uid >= FIRST_ID &&
           (entry->pw_gid >= FIRST_ID || entry->pw_gid == USERS);
}

/* Slurm learns who a user is by the name of his number. It takes whoever is called root for its first administrator
 * (26.05, assoc_mgr_set_uid). So nobody of the jail has a name of the pod's. */
static int is_the_pods(const char *name) {
    struct passwd entry, *result;
    char buffer[4096];
    int has_name = 0;
    FILE *lines = fopen(POD_PASSWD, "re");
    if (!lines)
        return 1;
    while (!has_name && !fgetpwent_r(lines, &entry, buffer, sizeof(buffer), &result))
        has_name = !strcmp(entry.pw_name, name);
    fclose(lines);
    return has_name;
}

/* glibc finds the pod's own names and numbers first. */
static int group_counts(const struct group *entry) {
    return is_name(entry->gr_name, OF_GROUPS) && entry->gr_gid != 0;
}

/* Only its password counts here; the other files say whose name it is. */
static int shadow_counts(const struct spwd *entry) {
    return is_name(entry->sp_namp, OF_USERS);
}

/* Returns the file's next entry that counts. */
#define NEXT(type, read_next)                                                                                          \
    static enum nss_status next_##type(FILE *lines, struct type *entry, char *buffer, size_t length, int *error) {     \
        struct type *result;                                                                                           \
        int failed;                                                                                                    \
        do                                                                                                             \
            failed = read_next(lines, entry, buffer, length, &result);                                                 \
        while (!failed && !type##_counts(entry));                                                                      \
        if (!failed)                                                                                                   \
            return NSS_STATUS_SUCCESS;                                                                                 \
        *error = failed;                                                                                               \
        return failed == ERANGE ? NSS_STATUS_TRYAGAIN : NSS_STATUS_NOTFOUND;                                           \
    }

#define LOOK_UP(type, file, function, parameter, is_it)                                                                \
    EXPORTED enum nss_status _nss_jail_##function(parameter, struct type *entry, char *buffer, size_t length,          \
                                                  int *error);                                                         \
    enum nss_status _nss_jail_##function(parameter, struct type *entry, char *buffer, size_t length, int *error) {     \
        FILE *lines = open_file(file);                                                                                 \
        enum nss_status outcome = NSS_STATUS_UNAVAIL;                                                                  \
        *error = ENOENT;                                                                                               \
        if (!lines)                                                                                                    \
            return outcome;                                                                                            \
        do                                                                                                             \
            outcome = next_##type(lines, entry, buffer, length, error);                                                \
        while (outcome == NSS_STATUS_SUCCESS && !(is_it));                                                             \
        fclose(lines);                                                                                                 \
        return outcome;                                                                                                \
    }

/* glibc locks these itself: one list at a time. */
#define LIST(type, file, suffix)                                                                                       \
    static FILE *list_of_##type;                                                                                       \
    EXPORTED enum nss_status _nss_jail_end##suffix(void);                                                              \
    EXPORTED enum nss_status _nss_jail_set##suffix(int stay_open);                                                     \
    EXPORTED enum nss_status _nss_jail_get##suffix##_r(struct type *entry, char *buffer, size_t length, int *error);   \
    enum nss_status _nss_jail_end##suffix(void) {                                                                      \
        if (list_of_##type)                                                                                            \
            fclose(list_of_##type);                                                                                    \
        list_of_##type = NULL;                                                                                         \
        return NSS_STATUS_SUCCESS;                                                                                     \
    }                                                                                                                  \
    enum nss_status _nss_jail_set##suffix(int stay_open) {                                                             \
        (void)stay_open;                                                                                               \
        _nss_jail_end##suffix();                                                                                       \
        list_of_##type = open_file(file);                                                                              \
        return list_of_##type ? NSS_STATUS_SUCCESS : NSS_STATUS_UNAVAIL;                                               \
    }                                                                                                                  \
    enum nss_status _nss_jail_get##suffix##_r(struct type *entry, char *buffer, size_t length, int *error) {           \
        *error = ENOENT;                                                                                               \
        if (!list_of_##type && _nss_jail_set##suffix(0) != NSS_STATUS_SUCCESS)                                         \
            return NSS_STATUS_UNAVAIL;                                                                                 \
        return next_##type(list_of_##type, entry, buffer, length, error);                                              \
    }

NEXT(passwd, fgetpwent_r)
NEXT(group, fgetgrent_r)
#define spwd_counts shadow_counts
NEXT(spwd, fgetspent_r)

LOOK_UP(passwd, "etc/passwd", getpwnam_r, const char *name, strcmp(entry->pw_name, name) == 0 && !is_the_pods(name))
LOOK_UP(passwd, "etc/passwd", getpwuid_r, uid_t id, entry->pw_uid == id && !is_the_pods(entry->pw_name))
LOOK_UP(group, "etc/group", getgrnam_r, const char *name, strcmp(entry->gr_name, name) == 0)
LOOK_UP(group, "etc/group", getgrgid_r, gid_t id, entry->gr_gid == id)
LOOK_UP(spwd, "etc/shadow", getspnam_r, const char *name, strcmp(entry->sp_namp, name) == 0)
LIST(passwd, "etc/passwd", pwent)
LIST(group, "etc/group", grent)
