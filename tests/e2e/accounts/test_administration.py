"""Only users whom the stack's config names administer Slurm, under their own names. Root in the jail does not."""

from __future__ import annotations

import pytest

ADMIN = "admin"
DRAIN = "scontrol update nodename=cpu-1 state=drain reason='a fan is broken'"
UNDRAIN = "scontrol update nodename=cpu-1 state=undrain"
NOBODY = "root of the jail is nobody to Slurm"


def drained(slurm) -> bool:
    return "drain" in slurm.sh("sinfo -h -n cpu-1 -o %T").ok()


@pytest.fixture(scope="module")
def admin(slurm):
    """The dev stack's administrator, once slurmdbd knows him."""
    level = f"sacctmgr -nP show user {ADMIN} format=adminlevel"
    slurm.wait("he is appointed", lambda: slurm.sh(level).ok() == "Administrator", 120)
    return ADMIN


def test_an_administrator_drains_and_undrains_as_himself_and_others_do_not(slurm, admin):
    slurm.sh(DRAIN, user=admin).ok()
    try:
        assert "a fan is broken" in slurm.sh("sinfo -h -n cpu-1 -R -o '%E %u'").ok()
        assert slurm.sh("sinfo -h -n cpu-1 -R -o %u").ok() == admin
        for line in (UNDRAIN, f"unshare -Ur {UNDRAIN}", f"srun -n1 unshare -Ur {UNDRAIN}"):
            refused = slurm.sh(line)
            assert refused.status != 0, line
            assert "Invalid user id" in refused.stderr or NOBODY in refused.stderr, (line, refused.stderr)
        for line in ("scontrol token", "scontrol token username=root", f"scontrol token username={admin}"):
            assert "Invalid user id" in slurm.sh(f"{line} lifespan=60").stderr, line
        assert drained(slurm)
    finally:
        slurm.sh(UNDRAIN, user=admin).ok()
    slurm.wait("he lifts it", lambda: not drained(slurm))


@pytest.mark.parametrize("words", ["dump script=/bin/true", "load insert='do 1'"])
def test_slurmdbd_runs_no_program_and_no_sql_for_an_administrator(slurm, admin, words):
    """Root of the jail can become him, and slurmdbd's pod has the cluster's keys."""
    refused = slurm.sh(f"sacctmgr -i archive {words}", user=admin)
    assert refused.status != 0, refused
    assert "so ask for it in slurmdbd's pod" in refused.stderr, refused
    # There slurmdbd takes both: with dump it would become the script, and be gone.
    assert "refused" not in slurm.on_pod("slurm-accounting-0", "sacctmgr -i archive load insert='do 1'").text


@pytest.mark.parametrize("where", ["sudo {}", "srun -n1 sudo {}"], ids=["login", "job"])
@pytest.mark.parametrize("line", [UNDRAIN, "srun -n1 id", "sbatch --wrap id", "scontrol token", "squeue"])
def test_root_of_the_jail_is_told_what_to_do_instead(slurm, where, line):
    refused = slurm.sh(where.format(line))
    assert refused.status != 0, refused
    assert NOBODY in refused.stderr
    assert "without sudo" in refused.stderr


# No command of Slurm's, so that nothing but the door is in the way: a token for whom Slurm takes as its own.
TOKEN = """
import os, socket, struct, sys
os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
with socket.socket(socket.AF_UNIX) as door:
    door.settimeout(10)
    door.connect(sys.argv[1])
    body = struct.pack("!III", 64001, 64030, 0)
    try:
        door.sendall(struct.pack("!HI", 0x2d00, len(body) + 4) + body)
        print("token" if door.recv(10) else "nothing")
    except OSError:
        print("nothing")
"""


@pytest.mark.parametrize("where", ["", "srun -n1 "], ids=["login", "job"])
def test_root_of_the_jail_gets_no_token_of_roots_nor_of_slurms_own_users(slurm, where):
    slurm.sh(f"cat > ask_sack.py <<'PYTHON'\n{TOKEN}\nPYTHON").ok()
    sockets = slurm.sh(f"{where}sudo find /run /tmp /var -type s -name 'sack*'").stdout.split()
    assert sockets == ["/run/slurm/sack.socket"]
    for uid in (0, 64030, 64031):
        assert slurm.sh(f"{where}sudo python3 ask_sack.py /run/slurm/sack.socket {uid}").ok() == "nothing"
    mine = slurm.sh("id -u").ok()
    assert slurm.sh(f"{where}sudo python3 ask_sack.py /run/slurm/sack.socket {mine}").ok() == "token", "it can be had"
