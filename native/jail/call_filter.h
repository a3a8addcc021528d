/* Statements of system call filters: programs of classic BPF over struct seccomp_data. A skip jumps over `count`
 * statements. */
#ifndef PULUMI_SLURM_CALL_FILTER_H
#define PULUMI_SLURM_CALL_FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

/* The answer to calls that a filter allows. A test has another one. */
#ifndef CALL_FILTER_ALLOWS
#define CALL_FILTER_ALLOWS SECCOMP_RET_ALLOW
#endif

/* The numbers of x32 on x86-64, which hardly any kernel has, carry this bit. */
#define X32 0x40000000

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ANSWER(error) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, CALL_FILTER_ALLOWS)
#define SKIP_UNLESS_EQUAL(value, count) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, count)
#define SKIP_IF_EQUAL(value, count) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, count, 0)
#define SKIP_IF_AT_LEAST(value, count) BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, value, count, 0)
#define SKIP_UNLESS_SET(bits, count) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, count)

#endif
