/* What the command line or variables ask srun for, in whose process a part of the plugin runs. */
#ifndef PULUMI_SLURM_SRUN_ASKS_H
#define PULUMI_SLURM_SRUN_ASKS_H

#include <stdbool.h>

/* For a task epilog: by the option, any part of it that getopt takes for it, or its variable. A word of the program's
 * own that looks alike costs a process that nobody asks. */
bool srun_asks_for_epilog(void);

/* To copy the program: by the option, or its variable. Words from `program` on are the program's own; getopt, which
 * srun uses, leaves their place in optind. */
bool srun_asks_for_broadcast(int program);

#endif
