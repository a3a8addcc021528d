"""Node-local storage over the shared root: the dev stack has a volume at /scratch, and /mnt/memory."""

from __future__ import annotations

PLACES = ("/scratch", "/mnt/memory")


def test_each_node_keeps_its_own_files_and_the_shared_volume_has_none(slurm):
    write = "; ".join(f"hostname > {place}/who && stat -c %a {place}" for place in PLACES)
    assert slurm.sh(f"srun -N2 sh -c {write!r}").ok().split() == ["1777"] * 4
    # Another job: what a node keeps outlives the job that wrote it.
    read = f"srun -N2 -l sh -c 'hostname; cat {' '.join(f'{place}/who' for place in PLACES)}'"
    seen = sorted(line.split(": ")[1] for line in slurm.sh(read).ok().splitlines())
    assert seen == ["cpu-0"] * 3 + ["cpu-1"] * 3
    for place in PLACES:
        # A node without the submount shows the root's own folder: empty, and not to be filled by mistake.
        assert slurm.sh(f"ls -A {place}").ok() == ""
        assert slurm.sh(f"touch {place}/x").status != 0
        in_roots = list(slurm.cluster.instance.volumes.glob(f"*/roots/*{place}"))
        assert in_roots, place
        assert not [file for folder in in_roots for file in folder.iterdir()]


def test_memory_is_limited_by_its_size(slurm):
    fill = "dd if=/dev/zero of=/mnt/memory/much bs=1M count=64; status=$?; rm /mnt/memory/much; exit $status"
    full = slurm.sh(f"srun -n1 -w cpu-0 sh -c {fill!r}")
    assert full.status != 0
    assert "No space left on device" in full.text
    slurm.sh("srun -n1 -w cpu-0 sh -c 'dd if=/dev/zero of=/mnt/memory/some bs=1M count=16 && rm /mnt/memory/some'").ok()


def test_a_submount_runs_no_set_id_programs(slurm):
    line = "cp /usr/bin/id /scratch/id && chmod u+s /scratch/id && chown root /scratch/id"
    slurm.sh(f"srun -n1 -w cpu-0 sudo sh -c {line!r}").ok()
    assert slurm.sh("srun -n1 -w cpu-0 /scratch/id -un; srun -n1 -w cpu-0 sudo rm /scratch/id").ok() == "dev"


def test_a_mount_point_that_root_removes_elsewhere_comes_back_with_its_files(slurm):
    """On a login node /scratch is the root's own folder: removing it takes the mount off on every worker."""
    slurm.sh("srun -N2 sh -c 'hostname > /scratch/kept'").ok()
    slurm.sh("sudo rmdir /scratch").ok()

    def back() -> bool:
        return sorted(slurm.sh("srun -N2 cat /scratch/kept").stdout.split()) == ["cpu-0", "cpu-1"]

    slurm.wait("both nodes' files are back", back, 120)
    assert slurm.sh("ls -A /scratch").ok() == ""
