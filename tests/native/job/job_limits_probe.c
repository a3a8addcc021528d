/* job_limits_probe: what slurmstepd does for itself in its job's groups, or the sentence that says why not. */
#include "job_limits.h"

#include <stdio.h>

int main(void) {
    struct jail jail;
    jail_init(&jail, JAIL_DEFAULT_ROOT);
    if (job_limits_set(&jail)) {
        puts(jail.why);
        return 1;
    }
    return 0;
}
