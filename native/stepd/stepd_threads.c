/* Takes capabilities from slurmstepd's threads at their birth. Older threads need a signal (stepd_rights.h). */
#include "kept_rights.h"
#include "stepd_guard.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

typedef void *routine(void *argument);
typedef int create(pthread_t *thread, const pthread_attr_t *attributes, routine *begin, void *argument);

struct birth {
    routine *begin;
    void *argument;
};

bool stepd_guard_reduces;

/* A failure shows when the tasks run: stepd_rights.c asks the kernel what each thread has. */
static void *begin(void *given) {
    struct birth birth = *(struct birth *)given;
    free(given);
    (void)kept_rights_reduce();
    return birth.begin(birth.argument);
}

/* Comes before the C library's for slurmstepd and the libraries that it loads. */
int pthread_create(pthread_t *newthread, const pthread_attr_t *attr, routine *start_routine, void *arg) {
    create *real = (create *)dlsym(RTLD_NEXT, "pthread_create");
    stepd_guard_has_step();
    struct birth *birth = real && stepd_guard_reduces ? malloc(sizeof(*birth)) : NULL;
    if (!real || (stepd_guard_reduces && !birth))
        return EAGAIN;
    if (!birth)
        return real(newthread, attr, start_routine, arg);
    *birth = (struct birth){.begin = start_routine, .argument = arg};
    int error = real(newthread, attr, begin, birth);
    if (error)
        free(birth);
    return error;
}
