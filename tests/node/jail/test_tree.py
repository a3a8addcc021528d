from pathlib import Path

import pytest
from slurm_node.jail import tree, tree_plan
from slurm_node.jail.tree_plan import Kind, Mount
from slurm_node.pod import paths
from slurm_node.pod.log import NodeError
from slurm_node.pod.settings import Jail

JAIL = Jail("r1", ("/srv", "/home"), tmp_mib=64, shm_mib=64)


def targets(mounts: list[Mount]) -> dict[str, Mount]:
    return {each.target: each for each in mounts}


def test_the_root_comes_first_and_persistent_paths_stand_over_it() -> None:
    mounts = tree_plan.plan(JAIL, Path("/v"))
    assert [(each.source, each.target) for each in mounts[:3]] == [
        ("/v/roots/r1", "/"),
        ("/v/persistent/home", "/home"),
        ("/v/persistent/srv", "/srv"),
    ]


def test_slurm_can_not_be_changed_from_inside() -> None:
    assert targets(tree_plan.plan(JAIL))["/opt/slurm"].kind is Kind.READ_ONLY


def test_only_a_worker_shows_slurmds_folder() -> None:
    assert "/var/spool/slurmd" not in targets(tree_plan.plan(JAIL))
    assert "/var/spool/slurmd" in targets(tree_plan.plan(JAIL, spool=Path("/var/spool/slurmd")))


def test_nothing_but_sockets_of_the_pods_run_folder_is_shown() -> None:
    mounts = targets(tree_plan.plan(JAIL))
    assert mounts["/run"].kind is Kind.MEMORY
    assert [target for target in mounts if target.startswith("/run/")] == ["/run/slurm"]


def test_temporary_files_are_the_nodes_own_and_limited() -> None:
    mounts = targets(tree_plan.plan(JAIL))
    for path in ("/tmp", "/dev/shm"):
        assert (mounts[path].kind, mounts[path].options) == (Kind.MEMORY, "mode=1777,size=64m")


def test_a_folder_is_mounted_before_what_stands_in_it() -> None:
    order = [each.target for each in tree_plan.plan(JAIL, spool=Path("/var/spool/slurmd"))]
    for position, path in enumerate(order):
        assert not any(later != "/" and path.startswith(later + "/") for later in order[position + 1 :]), path


def test_a_root_of_another_revision_or_no_volume_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NodeError, match="is not a mount: the pod has no jail volume"):
        tree.wait_for_root(JAIL, tmp_path)
    monkeypatch.setattr(tree, "is_mount_point", lambda _: True)
    manifest = paths.manifest_of(tmp_path, JAIL.revision)
    manifest.parent.mkdir()
    manifest.write_text('{"revision": "r2"}')
    with pytest.raises(NodeError, match="is not the marker of revision r1"):
        tree.wait_for_root(JAIL, tmp_path)
