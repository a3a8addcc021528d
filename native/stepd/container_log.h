/* Writes one line to the container's log. slurmd gives slurmstepd no stderr, so nobody would see its own messages. */
#ifndef PULUMI_SLURM_CONTAINER_LOG_H
#define PULUMI_SLURM_CONTAINER_LOG_H

#ifndef CONTAINER_LOG
#define CONTAINER_LOG "/proc/1/fd/2"
#endif

__attribute__((format(printf, 1, 2))) void container_log(const char *format, ...);

#endif
