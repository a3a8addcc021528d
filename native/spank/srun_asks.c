#include "srun_asks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool srun_asks_for_epilog(void) {
    char *word = NULL;
    size_t size = 0;
    bool asked = getenv("SLURM_TASK_EPILOG") != NULL;
    FILE *file = fopen("/proc/self/cmdline", "re");
    while (file && !asked && getdelim(&word, &size, '\0', file) > 0)
        asked = !strncmp(word, "--task-e", strlen("--task-e"));
    free(word);
    if (file)
        fclose(file);
    return asked;
}

bool srun_asks_for_broadcast(int program) {
    char *word = NULL;
    size_t size = 0;
    bool asked = getenv("SLURM_BCAST") != NULL;
    FILE *file = fopen("/proc/self/cmdline", "re");
    for (int i = 0; file && !asked && i < program && getdelim(&word, &size, '\0', file) > 0; i++)
        asked = !strcmp(word, "--bcast") || !strncmp(word, "--bcast=", strlen("--bcast="));
    free(word);
    if (file)
        fclose(file);
    return asked;
}
