"""The bench reads an array's duration from slurmctld's log."""

from bench.jobs.arrays import Span, array_span

LOG = """\
[2026-11-23T23:50:18.400] _job_complete: JobId=1 WEXITSTATUS 0
[2026-11-23T23:50:18.577] _job_complete: JobId=2_1(3) WEXITSTATUS 0
[2026-11-23T23:50:18.578] _job_complete: JobId=2_1(3) done
[2026-11-23T23:50:18.625] sched: Allocate JobId=2_2(4) NodeList=cpu-0 #CPUs=1 Partition=main
[2026-11-23T23:50:18.700] _job_complete: JobId=2_2(4) WEXITSTATUS 0
[2026-11-23T23:50:18.777] sched/backfill: _start_job: Started JobId=2_3(5) in main on cpu-0
[2026-11-23T23:50:19.077] _job_complete: JobId=2_3(5) WEXITSTATUS 0
[2026-11-23T23:50:19.078] _job_complete: JobId=2_3(5) done
[2026-11-23T23:50:19.500] _job_complete: JobId=22_4(6) WEXITSTATUS 0
[2026-11-23T23:50:19.600] sched: Allocate JobId=6_1(7) NodeList=cpu-1 #CPUs=1 Partition=main
"""


def test_an_array_counts_from_its_first_line_to_the_last_end_of_a_task() -> None:
    assert array_span(LOG, "2") == Span(0.5, 3)


def test_an_array_whose_tasks_have_not_ended_has_no_span() -> None:
    assert array_span(LOG, "6") == Span(0.0, 0)
