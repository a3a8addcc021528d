/* Reads srun's command line and variables, for the part of the plugin that runs in srun. */
#ifndef PULUMI_SLURM_SRUN_ASKS_H
#define PULUMI_SLURM_SRUN_ASKS_H

#include <stdbool.h>

/* Tells whether srun is asked for a task epilog: by the option, an abbreviation that getopt accepts, or its variable. A
 * similar word of the user's program costs one idle process. */
bool srun_asks_for_epilog(void);

/* Tells whether srun is asked to copy the program: by the option, or its variable. program: index of the first word of
 * the user's program, which srun's getopt leaves in optind. */
bool srun_asks_for_broadcast(int program);

#endif
