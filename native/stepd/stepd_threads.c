/* Takes capabilities from slurmstepd's threads at their birth. Older threads need a signal (stepd_rights.h). */
#include "kept_rights.h"
#include "stepd_guard.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef void *routine(void *argument);
typedef int create(pthread_t *thread, const pthread_attr_t *attributes, routine *begin, void *argument);

/* A thread's routine, until it begins. No allocated memory: glibc gives a new thread that frees some an arena of its
 * own. That takes longer than all the rest here. */
struct birth {
    routine *begin;
    void *argument;
    atomic_bool taken;
};

/* slurmstepd has some ten threads. While that many are born at once, a further one gets the signal later. */
#define BIRTHS 32

static struct birth births[BIRTHS];

bool stepd_guard_reduces;

static struct birth *take(void) {
    for (size_t i = 0; i < BIRTHS; i++)
        if (!atomic_exchange(&births[i].taken, true))
            return &births[i];
    return NULL;
}

/* A failure shows when the tasks run: stepd_rights.c asks the kernel what each thread has. */
static void *begin(void *given) {
    struct birth *birth = given;
    routine *own = birth->begin;
    void *argument = birth->argument;
    atomic_store(&birth->taken, false);
    (void)kept_rights_reduce();
    return own(argument);
}

/* Comes before the C library's for slurmstepd and the libraries that it loads. */
int pthread_create(pthread_t *newthread, const pthread_attr_t *attr, routine *start_routine, void *arg) {
    create *real = (create *)dlsym(RTLD_NEXT, "pthread_create");
    stepd_guard_has_step();
    if (!real)
        return EAGAIN;
    struct birth *birth = stepd_guard_reduces ? take() : NULL;
    if (!birth)
        return real(newthread, attr, start_routine, arg);
    birth->begin = start_routine;
    birth->argument = arg;
    int error = real(newthread, attr, begin, birth);
    if (error)
        atomic_store(&birth->taken, false);
    return error;
}
