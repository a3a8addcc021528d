/* Makes each call by its number, under a filter that answers all of them. Prints NUMBER ERROR for each that is refused.
 *
 *   filter_numbers_probe
 */
#include "jail.h"
#include "stepd_filter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NUMBERS 1024

/* uretprobe and uprobe: no filter sees them, and they end everybody who makes them. */
static int is_the_kernels(long number) {
#ifdef __x86_64__
    return number == 335 || number == 336;
#else
    return number < 0;
#endif
}

int main(void) {
    struct jail jail;
    int *errors = mmap(NULL, NUMBERS * sizeof(*errors), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (errors == MAP_FAILED)
        return EXIT_FAILURE;
    jail_init(&jail, "/");
    pid_t child = fork();
    if (child == 0) {
        if (!stepd_filter(&jail))
            for (long number = 0; number < NUMBERS; number++)
                errors[number] = is_the_kernels(number)                        ? EXDEV
                                 : syscall(number, 0L, 0L, 0L, 0L, 0L, 0L) < 0 ? errno
                                                                               : -1;
        /* It can't even call exit. */
        __builtin_trap();
    }
    if (child < 0 || waitpid(child, NULL, 0) != child)
        return EXIT_FAILURE;
    for (int number = 0; number < NUMBERS; number++)
        if (errors[number] != EXDEV)
            printf("%d %d\n", number, errors[number]);
    return EXIT_SUCCESS;
}
