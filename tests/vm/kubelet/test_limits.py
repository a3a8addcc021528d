"""Limits of a job in a worker pod of a real kubelet, and what its user reads of them (tests/vm/test_v2_limits.py)."""

from __future__ import annotations

import pytest

from tests.image.pods import WORKER
from tests.image.small_cluster import ALICE
from tests.vm import v2_lifts
from tests.vm.kubelet.kubelet_cluster import KubeletCluster
from tests.vm.test_v2_limits import (
    EAT,
    Tries,
    test_a_batch_job_that_wants_too_much_memory_says_so_in_its_output_and_state,
    test_a_job_keeps_to_its_cores,
    test_a_job_that_forks_without_end_leaves_others_and_the_node_their_processes,
    test_a_step_that_wants_more_memory_than_its_job_has_is_ended_in_slurms_words,
    test_all_that_the_tries_need_is_there,
    test_files_in_a_jobs_tmp_count_as_its_memory,
    test_jobs_that_run_at_once_have_cores_of_their_own,
    test_root_in_a_job_lifts_nothing_that_the_pods_root_lifts,
    test_slurm_tells_what_a_running_step_uses,
)

__all__ = [
    "test_a_batch_job_that_wants_too_much_memory_says_so_in_its_output_and_state",
    "test_a_job_keeps_to_its_cores",
    "test_a_job_that_forks_without_end_leaves_others_and_the_node_their_processes",
    "test_a_step_that_wants_more_memory_than_its_job_has_is_ended_in_slurms_words",
    "test_all_that_the_tries_need_is_there",
    "test_files_in_a_jobs_tmp_count_as_its_memory",
    "test_jobs_that_run_at_once_have_cores_of_their_own",
    "test_root_in_a_job_lifts_nothing_that_the_pods_root_lifts",
    "test_slurm_tells_what_a_running_step_uses",
]


@pytest.fixture(scope="module")
def tries(cluster: KubeletCluster) -> Tries:
    """Root in a job is who takes sudo there: root himself submits none."""
    lifts = v2_lifts.OF_ROOT_IN_A_JOB
    with cluster.life_of_a_job():
        script = v2_lifts.tries(lifts, until="go-on")
        cluster.jail(f"rm -f go-on tries.out; cat > tries <<'SHELL'\n{script}\nSHELL", user=ALICE)
        options = f"-w {WORKER} --mem=100 -o tries.out"
        submitted = cluster.jail(f"sbatch -Q {options} --wrap 'sudo sh tries'", user=ALICE)
        assert submitted.returncode == 0, submitted

        def of_the_job() -> v2_lifts.Told:
            return v2_lifts.told(cluster.jail("cat tries.out", user=ALICE).stdout)

        cluster.wait("it has tried", lambda: of_the_job().ended, 90)
        pod = cluster.pod(v2_lifts.by_who_may(lifts, of_the_job().group))
        cluster.jail("touch go-on", user=ALICE)
    return Tries(of_the_job(), v2_lifts.told(pod.stdout))


def test_records_keep_what_a_job_used_and_that_it_wanted_too_much(cluster: KubeletCluster) -> None:
    # Long enough for the second look at it, which comes 5 s after the first.
    held = "srun perl -e '@held = (q(a) x (100 << 20)); sleep 15'"
    with cluster.life_of_a_job():
        kept, ended = (
            cluster.jail(f'sbatch --parsable --mem=300 --acctg-freq=5 -o /dev/null --wrap "{line}"', user=ALICE)
            for line in (held, EAT % 400)
        )

        def record(job: str, fields: str) -> list[str]:
            asked = f"sacct -n -P --noconvert -o {fields} -j {job}"
            return cluster.jail(asked, user=ALICE).stdout.strip().split("|")

        job = ended.stdout.strip()
        cluster.wait("what ended", lambda: record(f"{job} -X", "State") == ["OUT_OF_MEMORY"], 60)
        step = f"{kept.stdout.strip()}.0"
        cluster.wait("what was kept", lambda: record(step, "State") == ["COMPLETED"], 60)
        assert 100 << 20 <= int(record(step, "MaxRSS")[0]) <= 300 << 20
