/* Stands for sshd: reads a file by getline, and says how long each line is. With "pipe" it reads its standard input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char *argv[]) {
    char *line = NULL;
    size_t size = 0;
    FILE *file = argc == 2 && strcmp(argv[1], "pipe") != 0 ? fopen(argv[1], "re") : stdin;
    if (!file)
        return 1;
    for (ssize_t length; (length = getline(&line, &size, file)) != -1;)
        printf("%zd%s ", length, strlen(line) == (size_t)length ? "" : "!");
    free(line);
    return fclose(file);
}
