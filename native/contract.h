/* Made from contract/native.py, by `.venv/bin/python -m tests.unit.golden_files`. Change it there. What each path is,
 * contract/paths.py says. */
#ifndef PULUMI_SLURM_CONTRACT_H
#define PULUMI_SLURM_CONTRACT_H

#ifndef SLURM_ID
#define SLURM_ID 64030
#endif
#ifndef SLURMREST_ID
#define SLURMREST_ID 64031
#endif
#ifndef TREE_WIDTH
#define TREE_WIDTH 65533
#endif
#ifndef JAIL_DEFAULT_ROOT
#define JAIL_DEFAULT_ROOT "/run/jail"
#endif
#ifndef JAIL_MARKER
#define JAIL_MARKER "run/.jail-ready"
#endif
#ifndef JAIL_NODE_FILES
#define JAIL_NODE_FILES "/run/node"
#endif
#ifndef SLURM_SOCKETS
#define SLURM_SOCKETS "/run/slurm"
#endif
#ifndef SLURM_DOOR
#define SLURM_DOOR "/run/slurm/door"
#endif
#ifndef SLURM_DOOR_MARK
#define SLURM_DOOR_MARK "/run/slurm/.door"
#endif
#ifndef SLURM_FETCHED
#define SLURM_FETCHED "/run/slurm/conf"
#endif
#ifndef SLURM_CONFIGURATION
#define SLURM_CONFIGURATION "/run/slurm/conf/slurm.conf"
#endif
#ifndef SLURMD_SPOOL
#define SLURMD_SPOOL "/var/spool/slurmd"
#endif
#ifndef SLURMD
#define SLURMD "/opt/slurm/sbin/slurmd"
#endif
#ifndef SRUN
#define SRUN "/opt/slurm/bin/srun"
#endif
#ifndef SPANK_JAIL
#define SPANK_JAIL "/opt/slurm/lib/slurm-wlm/spank_jail.so"
#endif
#ifndef PMI2_FOLDER
#define PMI2_FOLDER "slurm-pmi2"
#endif
#ifndef CGROUPS
#define CGROUPS "/sys/fs/cgroup"
#endif
#ifndef LATE_RUNNER
#define LATE_RUNNER "/opt/slurm/libexec/late_runner"
#endif
#ifndef JOB_INIT
#define JOB_INIT "/opt/slurm/libexec/job_init"
#endif
#ifndef JOB_INIT_GROUP
#define JOB_INIT_GROUP "/sys/fs/cgroup/pod/cgroup.procs"
#endif
#ifndef JOB_FOLDER
#define JOB_FOLDER "/run/slurm-node/jobs"
#endif
#ifndef JOB_LIVES
#define JOB_LIVES 1
#endif
#ifndef JOB_BROKEN
#define JOB_BROKEN "/run/slurm-node/broken"
#endif
#ifndef JOB_REFUSED
#define JOB_REFUSED "/run/slurm-node/prolog-refused"
#endif
#ifndef GUARD_REFUSED
#define GUARD_REFUSED "/run/slurm-node/plugin-refused"
#endif
#ifndef USER_LIMITS
#define USER_LIMITS "/run/slurm-node/login-limits"
#endif
#ifndef PROFILE_LIMITS
#define PROFILE_LIMITS "/run/slurm-node/profile-limits"
#endif
#ifndef PROBE_JOB
#define PROBE_JOB 0
#endif
#ifndef VIEW_SECRETS
#define VIEW_SECRETS "/run/secrets"
#endif
#ifndef VIEW_RUN
#define VIEW_RUN "/run"
#endif
#ifndef VIEW_VOLUME
#define VIEW_VOLUME "/mnt/jail"
#endif
#ifndef VIEW_OWN_RUN
#define VIEW_OWN_RUN "/run/slurm-node"
#endif
#ifndef VIEW_PREPARED
#define VIEW_PREPARED "/run/slurm-node/stepd-view"
#endif
#ifndef VIEW_MOUNTS
#define VIEW_MOUNTS "/run/slurm-node/stepd-view-mounts"
#endif
#ifndef VIEW_KEY
#define VIEW_KEY "/run/slurm-node/slurm.key"
#endif

#endif
