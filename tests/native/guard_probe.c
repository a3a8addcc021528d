/* Stands for slurmstepd: says that it runs, with its arguments, and gives back what it is told. */
#include <stdio.h>

int main(int argc, char *argv[]) {
    int byte;
    fputs("the real slurmstepd ran", stdout);
    for (int i = 1; i < argc; i++)
        printf(" %s", argv[i]);
    putchar('\n');
    while ((byte = getchar()) != EOF)
        putchar(byte);
    return 0;
}
