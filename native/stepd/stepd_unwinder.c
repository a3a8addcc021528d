/* Loads glibc's helper for ending threads from the image's own file, and only when it is needed.
 *
 * glibc loads libgcc_s.so.1 by its name, when a thread ends or cancels itself, or tells its stack. slurmstepd is in the
 * users' root by then. Root of a job may have put a file on that path. Hardly any step needs it, and loading it takes a
 * step 0.1 ms. */
#include "container_log.h"
#include "stepd_guard.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef UNWINDER
#define UNWINDER "/opt/slurm/lib/libgcc_s.so.1"
#endif

static struct stat wanted;
static pthread_mutex_t loads = PTHREAD_MUTEX_INITIALIZER;

void stepd_unwinder_init(void) {
    if (stat(UNWINDER, &wanted))
        wanted.st_ino = 0;
}

/* A file's device and number can't be chosen: nobody makes another one with those of the image's. */
static bool is_the_images(int file) {
    struct stat facts;
    return wanted.st_ino && !fstat(file, &facts) && facts.st_dev == wanted.st_dev && facts.st_ino == wanted.st_ino;
}

static bool load(void) {
    char path[32];
    int file = open(UNWINDER, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return false;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    /* glibc finds it by the name that the file itself has. */
    bool done = is_the_images(file) && dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    close(file);
    return done;
}

static bool has_unwinder(void) {
    static bool loaded;
    pthread_mutex_lock(&loads);
    bool has = loaded = loaded || load();
    pthread_mutex_unlock(&loads);
    if (!has)
        container_log("slurmstepd: error: jail: %s is not the image's file: it is not loaded\n", UNWINDER);
    return has;
}

/* These come before the C library's for slurmstepd and the libraries that it loads. */

__attribute__((noreturn)) void pthread_exit(void *retval) {
    void (*real)(void *) = has_unwinder() ? dlsym(RTLD_NEXT, "pthread_exit") : NULL;
    if (real)
        real(retval);
    _exit(EXIT_FAILURE);
}

int pthread_cancel(pthread_t th) {
    int (*real)(pthread_t) = has_unwinder() ? dlsym(RTLD_NEXT, "pthread_cancel") : NULL;
    return real ? real(th) : ENOSYS;
}

int backtrace(void **array, int size);

int backtrace(void **array, int size) {
    int (*real)(void **, int) = has_unwinder() ? dlsym(RTLD_NEXT, "backtrace") : NULL;
    return real ? real(array, size) : 0;
}
