/* Tells what its own process could do, as one line of words NAME=VALUE in a file that everybody may write.
 * Spaces and tabs of a value are written as '?'.
 *
 * A library (-DLIBRARY) tells when it is loaded. A program tells, and leaves a process behind that no request to end
 * ends. After "then" it becomes the command that follows. A first word label=LABEL stands for the variable, which not
 * every option leaves there. Set-id root it becomes root first. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define POD_FILE "usr/lib/python3/dist-packages/slurm_node/pod/paths.py"
#define UP "../../../../../../"
/* The last word of a line that tells everything. */
#define WHOLE "whole=yes\n"
/* Longer than any walk, whose end kills what is left (leftovers.py). */
#define STAY_SECONDS 36000

static char line[60000];
static size_t length;
static bool is_cut;

static void add(const char *format, ...) {
    char word[8192];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(word, sizeof(word), format, arguments);
    va_end(arguments);
    for (char *each = word; *each; each++)
        if (*each == ' ' || *each == '\t' || *each == '\n')
            *each = '?';
    if (size >= 0 && (size_t)size < sizeof(word) && length + (size_t)size + sizeof(WHOLE) < sizeof(line))
        length += (size_t)sprintf(line + length, "%s ", word);
    else
        is_cut = true;
}

static void add_link(const char *name, const char *path) {
    char target[512] = "";
    ssize_t size = readlink(path, target, sizeof(target) - 1);
    if (size > 0)
        add("%s=%s", name, target);
}

/* "yes" if a folder, or what lies above it, is the pod's. */
static const char *shows_pod(int folder) {
    if (!faccessat(folder, POD_FILE, F_OK, 0) || !faccessat(folder, UP POD_FILE, F_OK, 0) ||
        !faccessat(folder, "slurm.key", F_OK, 0))
        return "yes";
    return "no";
}

static void add_folder(const char *name, const char *path) {
    struct stat facts;
    int folder = open(path, O_PATH | O_CLOEXEC);
    if (folder < 0)
        return;
    if (!fstat(folder, &facts))
        add("%s=%lu:%lu:%s", name, (unsigned long)facts.st_dev, (unsigned long)facts.st_ino, shows_pod(folder));
    close(folder);
}

/* Slurm opens the first three descriptors of a task. */
static void add_devices(void) {
    for (int file = 0; file < 3; file++) {
        struct stat facts;
        char path[64], name[512] = "";
        if (fstat(file, &facts) || !(S_ISCHR(facts.st_mode) || S_ISBLK(facts.st_mode)))
            continue;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
        if (readlink(path, name, sizeof(name) - 1) < 0)
            name[0] = 0;
        add("device=%c:%u:%u:%s", S_ISCHR(facts.st_mode) ? 'c' : 'b', major(facts.st_rdev), minor(facts.st_rdev), name);
    }
}

static void add_each(const char *name, const char *folder, const char *below) {
    char path[512];
    DIR *all = opendir(folder);
    for (struct dirent *each = all ? readdir(all) : NULL; each; each = readdir(all)) {
        if (each->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s%s", folder, each->d_name, below);
        add_folder(name, path);
    }
    if (all)
        closedir(all);
}

static void add_mounts(void) {
    char text[4096], path[2048], root[1024], kind[256], flags[1024];
    int number, parent;
    unsigned on, of;
    bool goes_on = false;
    FILE *file = fopen("/proc/self/mountinfo", "re");
    while (file && fgets(text, sizeof(text), file)) {
        /* The rest of a long row has the layers of an overlay. */
        bool is_rest = goes_on;
        goes_on = !strchr(text, '\n');
        if (is_rest)
            continue;
        const char *end = strstr(text, " - ");
        if (!end || sscanf(end, " - %255s", kind) != 1 ||
            sscanf(text, "%d %d %u:%u %1023s %2047s %1023s", &number, &parent, &on, &of, root, path, flags) != 7) {
            is_cut = true;
            continue;
        }
        add("mount=%s:%s:%s", path, kind, strncmp(flags, "ro", 2) ? "rw" : "ro");
        add("source=%d:%d:%u:%u:%s:%s", number, parent, on, of, root, path);
    }
    if (file)
        fclose(file);
}

static void add_lines(void) {
    char text[4096];
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(text, sizeof(text), file))
        if (!strncmp(text, "Cap", 3) || !strncmp(text, "Seccomp", 7) || !strncmp(text, "NSpid:", 6)) {
            char name[64], value[256];
            if (sscanf(text, "%63[^:]: %255[^\n]", name, value) == 2)
                add("%s=%s", name, value);
        }
    if (file)
        fclose(file);
    file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(text, sizeof(text), file)) {
        text[strcspn(text, "\n")] = 0;
        add("cgroup=%s", text);
    }
    if (file)
        fclose(file);
    file = fopen("/proc/1/comm", "re");
    if (file && fgets(text, sizeof(text), file)) {
        text[strcspn(text, "\n")] = 0;
        add("first=%s", text);
    }
    if (file)
        fclose(file);
}

static void tell(const char *as) {
    static const char *const places[] = {"/home/witness/lines", "/run/jail/home/witness/lines"};
    static const char *const spaces[] = {"pid", "mnt", "ipc", "cgroup", "uts", "user"};
    const char *label = getenv("WITNESS");
    length = 0;
    is_cut = false;
    add("as=%s", as);
    add("label=%s", label ? label : "none");
    add("uid=%d:%d", (int)getuid(), (int)geteuid());
    add_link("exe", "/proc/self/exe");
    for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
        char path[64];
        snprintf(path, sizeof(path), "/proc/self/ns/%s", spaces[i]);
        add_link(spaces[i], path);
    }
    add_folder("root", "/proc/self/root");
    add_folder("cwd", "/proc/self/cwd");
    add_folder("first_root", "/proc/1/root");
    add_each("descriptor", "/proc/self/fd", "");
    add_devices();
    add_each("thread", "/proc/self/task", "/root");
    add_each("descriptor", "/proc/thread-self/fd", "");
    add_lines();
    add_mounts();
    length += (size_t)sprintf(line + length, "%s", is_cut ? "\n" : WHOLE);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        int file = open(places[i], O_WRONLY | O_APPEND | O_CLOEXEC);
        if (file >= 0 && write(file, line, length) == (ssize_t)length) {
            close(file);
            return;
        }
    }
}

#ifdef LIBRARY
__attribute__((constructor)) static void loaded(void) {
    tell("library");
}
#else
static void stay(void) {
    if (fork())
        return;
    setsid();
    for (int file = 0; file < 64; file++)
        close(file);
    signal(SIGTERM, SIG_IGN);
    sleep(STAY_SECONDS);
    _exit(0);
}

int main(int argc, char *argv[]) {
    if (!geteuid() && getuid() && (setgid(0) || setuid(0)))
        return 1;
    if (argc > 1 && !strncmp(argv[1], "label=", 6)) {
        setenv("WITNESS", argv[1] + 6, 1);
        argv++;
        argc--;
    }
    tell(getuid() ? "program" : "root");
    stay();
    if (argc > 2 && !strcmp(argv[1], "then")) {
        execvp(argv[2], argv + 2);
        return 127;
    }
    return 0;
}
#endif
