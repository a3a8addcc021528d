/* limits_probe RULES UID COMMAND…: the command under a user's limits, or the sentence that says why not. */
#include "user_limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char *argv[]) {
    struct jail jail;
    if (argc < 4)
        return 2;
    jail_init(&jail, JAIL_DEFAULT_ROOT);
    if (user_limits_apply(&jail, argv[1], (uid_t)strtoul(argv[2], NULL, 10))) {
        puts(jail.why);
        return 1;
    }
    execvp(argv[3], argv + 3);
    return 3;
}
