"""The bench reads durations of batch jobs from slurmctld's log."""

from bench.jobs.steps import batch_seconds

LOG = """\
[2026-11-21T22:48:11.003] sched: Allocate JobId=6 NodeList=cpu-0 #CPUs=1 Partition=main
[2026-11-21T22:48:11.100] sched: Allocate JobId=8 NodeList=cpu-0 #CPUs=2 Partition=main
[2026-11-21T22:48:11.135] _job_complete: JobId=6 WEXITSTATUS 0
[2026-11-21T22:48:11.200] sched/backfill: _start_job: Started JobId=9 in main on cpu-1
[2026-11-21T22:48:11.250] _job_complete: JobId=8 WEXITSTATUS 0
[2026-11-21T22:48:11.251] _job_complete: JobId=8 done
[2026-11-21T22:48:12.000] sched: Allocate JobId=10 NodeList=cpu-0 #CPUs=2 Partition=main
[2026-11-21T22:48:12.300] _job_complete: JobId=9 WEXITSTATUS 0
"""


def test_a_job_counts_from_when_it_is_given_a_node_to_when_its_end_is_known() -> None:
    taken = batch_seconds(LOG, {"8", "9", "10"})
    assert {node: [round(each, 3) for each in seconds] for node, seconds in taken.items()} == {
        "cpu-0": [0.15],
        "cpu-1": [1.1],
    }
