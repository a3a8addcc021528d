/* A command of Slurm's, as far as the guard in it can tell. */
#include <stdio.h>

int main(void) {
    puts("asked Slurm");
    return 0;
}
