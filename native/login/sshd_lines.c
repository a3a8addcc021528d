/* Bounds what sshd reads of a user's ~/.ssh/authorized_keys. sshd preloads this library (roles/login.py).
 *
 * sshd reads the file for whoever says that he is its user. It takes memory for a line of any length, and reads on
 * behind the key that it looked for. With this library a line that is longer than any key is empty. A file ends after
 * more keys than a user has. sshd opens plain files alone, so no pipe or device comes here. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#define LONGEST ((size_t)64 << 10)
#define MOST ((off_t)4 << 20)

/* The function as which sshd's compiler calls getline. */
ssize_t read_to(char **line, size_t *size, int end, FILE *file) __asm__("__getdelim");

/* Returns where the file is read, or -1 if it is not one that has an end. */
static off_t place_in(FILE *file) {
    int before = errno;
    off_t at = ftello(file);
    errno = before;
    return at;
}

static void tell(FILE *file) {
    char link[64], path[4096];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fileno(file));
    ssize_t length = readlink(link, path, sizeof(path) - 1);
    path[length < 0 ? 0 : length] = '\0';
    fprintf(stderr, "error: %s is longer than %lld MiB: its further lines count for nothing\n", path,
            (long long)(MOST >> 20));
}

static bool has_room(char **line, size_t *size) {
    if (*line && *size > LONGEST)
        return true;
    char *larger = realloc(*line, LONGEST + 1);
    if (!larger)
        return false;
    *line = larger;
    *size = LONGEST + 1;
    return true;
}

ssize_t read_to(char **line, size_t *size, int end, FILE *file) {
    off_t at = place_in(file);
    size_t length = 0;
    if (!has_room(line, size))
        return -1;
    for (int next; (next = getc_unlocked(file)) != EOF;) {
        if (at == MOST) {
            tell(file);
            return -1;
        }
        at += at >= 0;
        if (length < LONGEST)
            (*line)[length] = (char)next;
        length++;
        if (next == end)
            break;
    }
    if (length > LONGEST) {
        (*line)[0] = (char)end;
        length = 1;
    }
    (*line)[length] = '\0';
    return length ? (ssize_t)length : -1;
}

ssize_t getline(char **__restrict lineptr, size_t *__restrict n, FILE *__restrict stream) {
    return read_to(lineptr, n, '\n', stream);
}
