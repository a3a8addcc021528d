/* Stands for slurmstepd: a thread of it ends itself. Prints a line for each mapping of libgcc_s before, "then", and a
 * line for each afterwards. With two arguments it first renames one to the other: the file that it began with.
 *
 *   unwinder_probe [FROM TO]
 */
#include "stepd_guard.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void show(void) {
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof(line), maps))
        if (strstr(line, "libgcc_s"))
            fputs(strchr(line, '/'), stdout);
    if (maps)
        fclose(maps);
}

static void *end(void *unused) {
    pthread_exit(unused);
}

int main(int argc, char *argv[]) {
    pthread_t thread;
    stepd_unwinder_init();
    show();
    puts("then");
    fflush(stdout);
    if (argc > 2 && rename(argv[1], argv[2]))
        return EXIT_FAILURE;
    if (pthread_create(&thread, NULL, end, NULL) || pthread_join(thread, NULL))
        return EXIT_FAILURE;
    show();
    return EXIT_SUCCESS;
}
