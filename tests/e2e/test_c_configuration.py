"""The rendered configuration of a GPU cluster is one that the real slurmctld takes."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "unit" / "golden"
SCRATCH = "/run/slurmctld/golden"


@pytest.mark.parametrize("stack", sorted(folder.name for folder in GOLDEN.iterdir() if folder.is_dir()))
def test_a_real_slurmctld_starts_with_the_rendered_files(slurm, stack):
    """A second slurmctld beside the running one: own port, own state, own name in accounting, the same keys."""
    slurm.on_pod("slurm-controller-0", f"rm -rf {SCRATCH}; mkdir -p {SCRATCH}/state").ok()
    for file in (GOLDEN / stack).iterdir():
        content = file.read_text()
        if file.name == "slurm.conf":
            content = (
                re.sub(r"(?m)^ClusterName=.*$", "ClusterName=golden", content)
                .replace("SlurmctldPort=6817", "SlurmctldPort=7817")
                # The socket for commands in the pod stays the running one's.
                .replace("AuthInfo=", "AuthInfo=disable_sack,")
                .replace("(slurm-controller)", "(localhost)")
                .replace("StateSaveLocation=/var/spool/slurmctld", f"StateSaveLocation={SCRATCH}/state")
                .replace("/run/slurmctld/slurmctld.pid", f"{SCRATCH}/slurmctld.pid")
            )
            assert SCRATCH in content
        write = ("exec", "-i", "slurm-controller-0", "--", "sh", "-c", f"cat > {SCRATCH}/{file.name}")
        slurm.kubectl(*write, text=content).ok()
    script = f"""
        export SLURM_CONF={SCRATCH}/slurm.conf SLURM_SACK_KEY=/run/slurmctld/slurm.key
        timeout 25 slurmctld -D -c -f $SLURM_CONF > {SCRATCH}/log 2>&1 &
        for i in $(seq 40); do
            scontrol ping 2>/dev/null | grep -q UP && {{ scontrol show partition; kill $!; exit 0; }}
            kill -0 $! 2>/dev/null || break
            sleep 0.5
        done
        cat {SCRATCH}/log; exit 1
    """
    shown = slurm.on_pod("slurm-controller-0", textwrap.dedent(script), seconds=60).ok()
    assert "PartitionName=" in shown
    slurm.on_pod("slurm-controller-0", f"rm -rf {SCRATCH}").ok()
    deleting = "sacctmgr -i delete cluster golden"
    slurm.wait("golden is forgotten", lambda: slurm.on_pod("slurm-accounting-0", deleting).status == 0)


def test_a_login_node_gets_each_configuration_that_slurmctld_loads(slurm):
    """sackd fetches it at its start; afterwards slurmctld has to reach it."""
    cached = "/run/slurm/conf/slurm.conf"
    slurm.on_pod("slurm-login-0", f"echo '# outdated' >> {cached}; grep outdated {cached}").ok()
    slurm.on_pod("slurm-controller-0", "scontrol reconfigure").ok()
    slurm.wait("a new copy", lambda: "outdated" not in slurm.on_pod("slurm-login-0", f"cat {cached}").ok(), 60)
    assert slurm.sh("sinfo -h -o %P").ok() == "main*"
