"""Phases of `make test`: which tests, with how many workers, in how many minutes, and beside what."""

from __future__ import annotations

from dataclasses import dataclass, replace

from devcluster.vm import tests as vm_tests


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of the tests; `minutes` is its budget, printed beside what it took.

    The budget is for two cores, beside the other lanes, with toolchain, images and guest in the cache.

    `workers` run side by side, each with an API server, a cluster and an instance of its own.
    `by_file`: a worker takes whole files, the longest first, since the tests of one share what is dear to make.
    `on_v2`: on a kernel with cgroup v2 and NFS, this machine's own or a guest's (devcluster/vm).
    `without`: files and folders below its folders that another phase has.
    `retries`: how often files with failed tests are run again, in a run of their own (docs/adr/0008).
    `has_instances`: its tests start instances of this checkout's, which a run that died leaves.
    `is_patient`: it computes more than it waits, and leaves the cores to phases with deadlines.
    `is_in_memory`: its tests unpack many files (devcluster/suite/memory_files.py).
    """

    name: str
    minutes: int
    folders: tuple[str, ...]
    workers: int = 1
    by_file: bool = False
    without: tuple[str, ...] = ()
    retries: int = 0
    on_v2: bool = False
    has_instances: bool = False
    is_patient: bool = False
    is_in_memory: bool = False


A_JOBS_LIFE_ON_V2 = Phase("cgroup v2", 6, ("tests/vm/test_v2_jobs.py",), retries=1, on_v2=True)
"""The part of tests/vm that also runs in `make test`."""
THE_GUEST_ITSELF = Phase("the guest itself", 1, ("tests/devcluster/vm/test_guest.py",), retries=1)
"""Phase that needs the guest's kernel."""
E2E = Phase("e2e", 22, ("tests/e2e",), 2, True, retries=2, has_instances=True)
"""Two clusters. Its tests wait for Slurm's and Kubernetes' own intervals most of the time."""
UNIT_AND_NATIVE = Phase(
    "unit and native", 7, ("tests/unit", "tests/node", "tests/health", "tests/native"), 2, True, retries=1,
    is_patient=True,
)  # fmt: skip
DEV_CLUSTER = Phase("dev cluster", 5, ("tests/devcluster",), 2, True, THE_GUEST_ITSELF.folders, retries=1)
"""One worker has whole instances, whose tests wait (test_instances.py), the other has one instance for the rest."""
OPERATOR = Phase(
    "operator", 10, ("tests/operator", "tests/provider", "tests/upgrade", "tests/manifests"), 3, retries=1,
    is_patient=True,
)  # fmt: skip
"""It mostly waits: for pulumi's start, for readiness, for deadlines."""
IMAGE = Phase("image", 10, ("tests/image",), 4, True, retries=1, is_in_memory=True)
"""It computes an eighth of its time, for one worker."""
LATER_IMAGE = (
    replace(IMAGE, name="image later", minutes=5, folders=tuple(
        f"tests/image/{name}" for name in ("configuration", "jobs", "logins", "records")
    )),
    replace(IMAGE, name="image last", minutes=2, folders=("tests/image/long_checks",)),
)  # fmt: skip
"""Parts of *image* that come last. Each is run by the lane that is free first, so both end together."""
FIRST_IMAGE = replace(IMAGE, minutes=6, without=tuple(folder for part in LATER_IMAGE for folder in part.folders))
WITH_CLUSTERS = (FIRST_IMAGE, E2E)
"""A lane whose phases run in sequence. Two clusters start when the first phase is over."""
BESIDE_CLUSTERS = (OPERATOR, UNIT_AND_NATIVE, A_JOBS_LIFE_ON_V2, THE_GUEST_ITSELF, DEV_CLUSTER)
"""The other lane: phases that take turns beside *image* and *e2e* (docs/adr/0030)."""
PHASES = (OPERATOR, IMAGE, E2E, UNIT_AND_NATIVE, DEV_CLUSTER)
ALL_ON_V2 = Phase("cgroup v2 and NFS", 20, (vm_tests.FOLDER,), retries=1, on_v2=True)
