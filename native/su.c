/* Stands at /bin/su in the pod. slurmd runs `su - USER -c …` for `sbatch --export=NONE` and `--get-user-env`, before
 * any plugin and with the user's own start-up files: so it must enter the jail first, and use the jail's su. */
#include "jail.h"

#include <stdio.h>
#include <unistd.h>

int main(int argc, char *argv[]) {
    struct jail jail;
    (void)argc;
    jail_init(&jail, JAIL_DEFAULT_ROOT);
    if (jail_enter(&jail) || jail_drop_capabilities(&jail)) {
        fprintf(stderr, "su: refusing to run outside the jail: %s\n", jail.why);
        return 1;
    }
    argv[0] = "su";
    execv("/bin/su", argv);
    perror("su: /bin/su in the jail");
    return 1;
}
