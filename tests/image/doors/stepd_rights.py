"""Rights of slurmstepd's threads."""

from __future__ import annotations

# Every thread of every slurmstepd, after the name of its step.
THREADS = """
for each in $(pgrep -f '^slurmstepd: '); do
    tr '\\0' ' ' < /proc/$each/cmdline; echo
    grep -hE '^(Seccomp|NoNewPrivs|CapPrm):' /proc/$each/task/*/status
done
"""
KEPT = 1 << 1 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8
"""DAC_OVERRIDE, KILL, SETGID, SETUID and SETPCAP: what ending a job takes (native/spank/stepd_rights.c)."""
