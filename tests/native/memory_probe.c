/* memory_probe: what slurmstepd does for itself in its job's groups, or the sentence that says why not. */
#include "job_memory.h"

#include <stdio.h>

int main(void) {
    struct jail jail;
    jail_init(&jail, JAIL_DEFAULT_ROOT);
    if (job_memory_spare(&jail)) {
        puts(jail.why);
        return 1;
    }
    return 0;
}
