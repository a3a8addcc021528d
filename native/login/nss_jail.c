/* The name service of the pods' own programs for the jail's users: "jail" in nsswitch.conf.
 *
 * It reads the account files of /run/jail/etc at each look-up, as libnss-extrausers does. Root of the jail writes them,
 * so it waits for none and reads at most MOST bytes of one. It treats a pipe, a device or an endless file as a missing
 * file. Links end inside of the jail. It skips system users and their names, which are the pod's own. Groups count,
 * such as sudo and video, except root's. slurmctld keeps a user's line and groups with each of his jobs, so both have
 * bounds. */
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
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define MOST ((off_t)32 << 20)
#define LONGEST_LINE 4096               /* Of a user. */
#define LONGEST_GROUP ((size_t)4 << 20) /* Its members' names, and a pointer to each. */
#define LONGEST_NAME 128
#define MOST_GROUPS 1024 /* Of a user. */
#define FIRST_ID 500
#define NO_ID 0xfffffffeU /* From here on numbers mean none, to Slurm (NO_VAL) and to Linux. */
#define USERS 100         /* Debian's group of all users. */
/* Names may have these beside letters and digits. Directories have groups with spaces. */
#define OF_USERS "._-@$"
#define OF_GROUPS OF_USERS " "
#ifndef POD_PASSWD
#define POD_PASSWD "/etc/passwd"
#endif
#define EXPORTED __attribute__((visibility("default")))

/* A file may grow while it is read. */
static ssize_t read_bounded(void *cookie, char *bytes, size_t size) {
    const int *file = cookie;
    off_t at = lseek(*file, 0, SEEK_CUR);
    size_t left = at < 0 || at >= MOST ? 0 : (size_t)(MOST - at);
    return read(*file, bytes, size < left ? size : left);
}

static int seek_bounded(void *cookie, off64_t *to, int whence) {
    const int *file = cookie;
    *to = lseek(*file, *to, whence);
    return *to < 0 ? -1 : 0;
}

static int close_bounded(void *cookie) {
    int *file = cookie, failed = close(*file);
    free(file);
    return failed;
}

static FILE *read_from(int file) {
    const cookie_io_functions_t bounded = {.read = read_bounded, .seek = seek_bounded, .close = close_bounded};
    int *cookie = malloc(sizeof(*cookie));
    if (cookie)
        *cookie = file;
    FILE *lines = cookie ? fopencookie(cookie, "r", bounded) : NULL;
    if (!lines)
        free(cookie);
    return lines;
}

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
        FILE *lines = read_from(file);
        if (lines)
            return lines;
    }
    if (file >= 0)
        close(file);
    return NULL;
}

/* Returns the length of a letter in UTF-8, or 0. Tokens hold names as text, and logs show them: so it may be neither
 * another encoding's nor a control character (U+0080 to U+009F). */
static size_t letter(const unsigned char *at) {
    static const struct {
        unsigned char first, last, least, most;
        size_t length;
    } forms[] = {{0xc2, 0xc2, 0xa0, 0xbf, 2}, {0xc3, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
                 {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
                 {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (at[0] < forms[i].first || at[0] > forms[i].last || at[1] < forms[i].least || at[1] > forms[i].most)
            continue;
        size_t length = 2;
        while (length < forms[i].length && at[length] >= 0x80 && at[length] <= 0xbf)
            length++;
        return length == forms[i].length ? length : 0;
    }
    return 0;
}

/* Refuses the lines of NIS, which glibc reads, too. Slurm passes names on to queries and scripts: so it also refuses
 * those that would be more than a name there. */
static int is_name(const char *name, const char *further) {
    if (!*name || *name == '+' || *name == '-' || strlen(name) > LONGEST_NAME)
        return 0;
    for (const unsigned char *at = (const unsigned char *)name; *at;) {
        int is_plain = *at < 0x80 && (isalnum(*at) || strchr(further, *at));
        size_t length = is_plain ? 1 : letter(at);
        if (!length)
            return 0;
        at += length;
    }
    return 1;
}

static int is_id(id_t id) {
    return id >= FIRST_ID && id < NO_ID;
}

static int passwd_counts(const struct passwd *entry) {
    return is_name(entry->pw_name, OF_USERS) && is_id(entry->pw_uid) &&
           (is_id(entry->pw_gid) || entry->pw_gid == USERS);
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
    return is_name(entry->gr_name, OF_GROUPS) && entry->gr_gid != 0 && entry->gr_gid < NO_ID;
}

/* Only its password counts here; the other files say whose name it is. */
static int shadow_counts(const struct spwd *entry) {
    return is_name(entry->sp_namp, OF_USERS);
}

static void skip_line(FILE *lines) {
    int next;
    do
        next = getc(lines);
    while (next != EOF && next != '\n');
}

/* Returns the file's next entry that counts. A line that is too long counts as none. */
#define NEXT(type, read_next, longest)                                                                                 \
    static enum nss_status next_##type(FILE *lines, struct type *entry, char *buffer, size_t length, int *error) {     \
        struct type *result;                                                                                           \
        int failed;                                                                                                    \
        do {                                                                                                           \
            failed = read_next(lines, entry, buffer, length < (longest) ? length : (longest), &result);                \
            if (failed == ERANGE && length >= (longest))                                                               \
                skip_line(lines);                                                                                      \
        } while (failed ? failed == ERANGE && length >= (longest) : !type##_counts(entry));                            \
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

NEXT(passwd, fgetpwent_r, LONGEST_LINE)
NEXT(group, fgetgrent_r, LONGEST_GROUP)
#define spwd_counts shadow_counts
NEXT(spwd, fgetspent_r, LONGEST_LINE)

LOOK_UP(passwd, "etc/passwd", getpwnam_r, const char *name, strcmp(entry->pw_name, name) == 0 && !is_the_pods(name))
LOOK_UP(passwd, "etc/passwd", getpwuid_r, uid_t id, entry->pw_uid == id && !is_the_pods(entry->pw_name))
LOOK_UP(group, "etc/group", getgrnam_r, const char *name, strcmp(entry->gr_name, name) == 0)
LOOK_UP(group, "etc/group", getgrgid_r, gid_t id, entry->gr_gid == id)
LOOK_UP(spwd, "etc/shadow", getspnam_r, const char *name, strcmp(entry->sp_namp, name) == 0)
LIST(passwd, "etc/passwd", pwent)
LIST(group, "etc/group", grent)

static int has_member(const struct group *entry, const char *user) {
    char **member = entry->gr_mem;
    while (*member && strcmp(*member, user) != 0)
        member++;
    return *member != NULL;
}

/* Adds a group to glibc's list, which grows up to a limit, if that is not 0. Returns 0 if it is full. */
static int add(gid_t id, long *count, long *size, gid_t **groups, long limit) {
    if (*count == *size) {
        long more = limit > 0 && limit < *size * 2 ? limit : *size * 2;
        gid_t *grown = more > *size ? realloc(*groups, (size_t)more * sizeof(gid_t)) : NULL;
        if (!grown)
            return 0;
        *groups = grown;
        *size = more;
    }
    (*groups)[(*count)++] = id;
    return 1;
}

/* glibc calls it in several threads at once. Without it, glibc would have them share the list of groups above. */
#define INITGROUPS _nss_jail_initgroups_dyn
EXPORTED enum nss_status INITGROUPS(const char *user, gid_t first, long *count, long *size, gid_t **groups, long limit,
                                    int *error);
enum nss_status INITGROUPS(const char *user, gid_t first, long *count, long *size, gid_t **groups, long limit,
                           int *error) {
    enum nss_status outcome = NSS_STATUS_UNAVAIL;
    struct group entry;
    size_t length = LONGEST_LINE;
    long most = *count + MOST_GROUPS;
    FILE *lines = open_file("etc/group");
    char *buffer = lines ? malloc(length) : NULL;
    *error = ENOENT;
    while (buffer && *count < most) {
        outcome = next_group(lines, &entry, buffer, length, error);
        if (outcome == NSS_STATUS_TRYAGAIN) {
            char *grown = realloc(buffer, length *= 2);
            if (!grown)
                break;
            buffer = grown;
            continue;
        }
        int is_his = outcome == NSS_STATUS_SUCCESS && entry.gr_gid != first && has_member(&entry, user);
        if (outcome != NSS_STATUS_SUCCESS || (is_his && !add(entry.gr_gid, count, size, groups, limit)))
            break;
    }
    if (lines)
        fclose(lines);
    free(buffer);
    return outcome == NSS_STATUS_NOTFOUND ? NSS_STATUS_SUCCESS : outcome;
}
