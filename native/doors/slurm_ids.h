/* Ids of SlurmUser and of slurmrestd in the image and in the jail; contract/names.py has the same. */
#ifndef PULUMI_SLURM_SLURM_IDS_H
#define PULUMI_SLURM_SLURM_IDS_H

#define SLURM_ID 64030
#define SLURMREST_ID 64031

#endif
