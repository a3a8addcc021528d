"""Who administers Slurm: root of the jail and the tokens that it makes, as docs/adr/0003 has it, and nobody else."""

from __future__ import annotations

UNDRAIN = "scontrol update nodename=cpu-1 state=undrain"
BY_REST = """
import json, sys, urllib.request
url = "http://slurm-rest:6820/slurm/v0.0.45/node/cpu-1"
headers = {"X-SLURM-USER-TOKEN": sys.argv[1], "Content-Type": "application/json"}
body = json.dumps({"state": ["UNDRAIN"]}).encode()
print(urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=10).status)
"""


def undrain_by_rest(slurm, token: str):
    """From the operator's pod: nobody else reaches slurmrestd (test_b_fail_closed.py)."""
    where = ("exec", "deployment/slurm-operator", "--")
    return slurm.kubectl(*where, "python3", "-c", BY_REST, token.strip().removeprefix("SLURM_JWT="))


def test_an_ordinary_user_lifts_no_drain_and_root_of_the_jail_does(slurm):
    def drained() -> bool:
        return "drain" in slurm.sh("sinfo -h -n cpu-1 -o %T").ok()

    drain = "sudo scontrol update nodename=cpu-1 state=drain reason='a fan is broken'"
    slurm.sh(drain).ok()
    try:
        for line in (UNDRAIN, f"unshare -Ur {UNDRAIN}", f"srun -n1 unshare -Ur {UNDRAIN}"):
            refused = slurm.sh(line)
            assert refused.status != 0, line
            assert "Invalid user id" in refused.stderr, (line, refused.stderr)
        for line in ("scontrol token", "scontrol token username=root"):
            assert "Invalid user id" in slurm.sh(f"{line} lifespan=60").stderr, line
        assert drained()
        # Accepted: root is for named people.
        assert undrain_by_rest(slurm, slurm.sh("sudo scontrol token lifespan=60").ok()).ok() == "200"
        slurm.wait("root's token lifts it", lambda: not drained())
        slurm.sh(drain).ok()
    finally:
        slurm.sh(f"sudo {UNDRAIN}").ok()
    slurm.wait("sudo lifts it", lambda: not drained())
