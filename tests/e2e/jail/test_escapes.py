"""Root in a job is root in the jail and nothing more: every way out that we know is tried, and refused.

A second job, the victim, runs on the same node with things that others must not see. The probes (escapes.py) run as
root in one job. The same probes must succeed in the pod's own root, or in a step of the victim's job.
"""

from __future__ import annotations

import base64
import json
import shlex

import pytest

from tests.e2e.jail.escapes import COVERED, COVERS, ESCAPES, IN_JOB, IPC_KEY, SAME, SECRET, SOCKET

NODE = "cpu-0"
SECONDS_EACH = 10

# Prints name → [exit status, output] of each line. As one program, since a step each would take minutes.
RUNNER = f"""
import concurrent.futures, json, subprocess, sys
def run(item):
    name, line = item
    try:
        done = subprocess.run(["bash", "-c", line], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout={SECONDS_EACH})
        return name, [done.returncode, (done.stdout + done.stderr)[-300:]]
    except subprocess.TimeoutExpired:
        return name, [124, "no answer in {SECONDS_EACH} s"]
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    print(json.dumps(dict(pool.map(run, json.load(open(sys.argv[1])).items()))))
"""

# A private segment, files and a script that hold the marker; then it waits until it is told to end.
VICTIM = f"""#!/bin/bash
# {SECRET}
touch /tmp/{SECRET} /dev/shm/{SECRET}
python3 -c 'import ctypes; ctypes.CDLL(None).shmget(ctypes.c_int({IPC_KEY}), ctypes.c_size_t(4096), 0o1666)'
script -qc "env VICTIM={SECRET} sleep 300" /dev/null &
python3 -c 'import socket, time; own = socket.socket(socket.AF_UNIX); own.bind("\\0{SOCKET}"); time.sleep(300)' &
until grep -q '@{SOCKET}$' /proc/net/unix; do sleep 0.1; done
touch ~/victim-is-ready
wait
"""

Outcomes = dict[str, tuple[int, str]]


def outcomes(printed: str) -> Outcomes:
    return {name: (status, said) for name, (status, said) in json.loads(printed.splitlines()[-1]).items()}


def runner(lines: dict[str, str]) -> str:
    """A shell line that runs many lines and prints what came of each."""
    program = base64.b64encode(RUNNER.encode()).decode()
    given = base64.b64encode(json.dumps(lines).encode()).decode()
    unpack = f"echo {given} | base64 -d > $HOME/lines && echo {program} | base64 -d > $HOME/run"
    return f"{unpack} && python3 $HOME/run $HOME/lines"


def as_root(lines: dict[str, str]) -> str:
    """A job on the victim's node that runs them as root."""
    return f"srun -n1 -w {NODE} --mem=200M sudo HOME=/root bash -c {shlex.quote(runner(lines))}"


@pytest.fixture
def victim(slurm):
    """A job on the node of the probes; the partition lets two jobs share its one CPU meanwhile."""
    share = "scontrol update partitionname=main oversubscribe={}"
    try:
        slurm.kubectl("exec", "slurm-controller-0", "--", "sh", "-c", share.format("force:2")).ok()
        slurm.sh(f"rm -f ~/victim-is-ready; cat > ~/victim.sh <<'V'\n{VICTIM}\nV").ok()
        job = slurm.sh(f"sbatch --parsable -w {NODE} --mem=200M -o /dev/null ~/victim.sh").ok()
        slurm.wait("the victim runs", lambda: slurm.sh("ls ~/victim-is-ready").status == 0, 60)
        yield job
    finally:
        slurm.sh("scancel --me").ok()
        slurm.kubectl("exec", "slurm-controller-0", "--", "sh", "-c", share.format("no")).ok()
        slurm.wait("all nodes idle again", slurm.all_idle, 60)


def test_root_in_a_job_gets_out_by_none_of_the_known_ways(slurm, victim):
    assert len({escape.name for escape in ESCAPES}) == len(ESCAPES) >= 25
    own_lines = {escape.name: escape.line for escape in ESCAPES}
    tried, there, covers = (
        outcomes(slurm.sh(as_root(lines), seconds=120).ok()) for lines in (own_lines, IN_JOB, COVERS)
    )
    outside = {escape.name: escape.outside for escape in ESCAPES if escape.outside}
    in_pod = runner({name: own_lines[name] if line == SAME else line for name, line in outside.items()})
    possible = outcomes(slurm.on_pod(NODE, f"HOME=/tmp; {in_pod}", seconds=120).ok())
    inside_victim = {escape.name: escape.inside_victim for escape in ESCAPES if escape.inside_victim}
    inside_victim["a cover is seen"] = f'unshare -Urm sh -c "{COVERS["mount"]} && {COVERED}"'
    of_victim = runner({**inside_victim, "not covered": f"! {COVERED}"})
    overlap = f"srun --jobid={victim} --overlap -n1 bash -c {shlex.quote(of_victim)}"
    seen_by_victim = outcomes(slurm.sh(overlap, seconds=60).ok())

    assert tried.keys() == own_lines.keys()
    got_out = {name: said for name, (status, said) in tried.items() if status == 0}
    assert not got_out
    prove_nothing = {name: said for name, said in {**possible, **seen_by_victim, **there}.items() if said[0] != 0}
    assert not prove_nothing, "these ways fail where nothing keeps them from succeeding"
    assert {name for name, said in covers.items() if said[0] == 0} == {"in a user namespace"}
    for pod in (NODE, "slurm-login-0"):
        assert not slurm.on_pod(pod, "grep cover /proc/self/mountinfo").stdout


def test_what_the_runtime_masks_or_makes_read_only_in_the_pod_is_so_in_a_job(slurm):
    def below_proc(mountinfo: str) -> dict[str, tuple[str, bool]]:
        """Path → whether a file system or a device lies there, and whether it is read-only."""
        lines = (line.split() for line in mountinfo.splitlines())
        return {words[4]: (words[3], "ro" in words[5].split(",")) for words in lines if words[4].startswith("/proc/")}

    in_pod = below_proc(slurm.on_pod(NODE, "cat /proc/self/mountinfo").ok())
    in_job = below_proc(slurm.sh(f"srun -n1 -w {NODE} cat /proc/self/mountinfo").ok())
    assert {"/proc/keys", "/proc/sys"} <= in_pod.keys()
    # By a mask that is not read-only, root in a job would change the mode of the pod's /dev/null.
    wanted = {path: (shows, read_only or shows == "/null") for path, (shows, read_only) in in_pod.items()}
    assert {path: in_job.get(path) for path in in_pod} == wanted


def test_steps_of_one_job_share_what_is_its_own_and_nothing_is_left_after_it(slurm):
    script = """
        touch /tmp/left /dev/shm/left
        srun -n1 --overlap test -e /tmp/left -a -e /dev/shm/left
        srun -n1 --overlap readlink /proc/self/ns/pid /proc/self/ns/ipc | sort > ~/first
        srun -n1 --overlap readlink /proc/self/ns/pid /proc/self/ns/ipc | sort | diff ~/first -
        srun -n1 --overlap sh -c 'setsid sleep 1000 > /dev/null 2>&1 &'
    """
    slurm.sh(f"salloc -Q -n1 -w {NODE} srun -n1 --overlap bash -ec {shlex.quote(script)}").ok()
    slurm.wait("the job's end", slurm.all_idle, 60)
    assert slurm.sh(f"srun -n1 -w {NODE} ls -A /tmp /dev/shm").ok().split() == ["/dev/shm:", "/tmp:"]
    look = "ls /run/slurm-node/jobs; cat /proc/[0-9]*/comm | grep job_init; pgrep -xfl 'sleep 1000'"
    left = slurm.on_pod(NODE, look).stdout
    # A jail probe of the node itself may be under way: it is number 0.
    assert set(left.split()) <= {"0", "job_init"}


# Says who loads it, where it was planted for everybody.
WITNESS = r"""
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void tell(void) {
    char line[256], own[64] = "?";
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof(line), status))
        if (sscanf(line, "CapPrm: %60s", own) == 1) break;
    if (status) fclose(status);
    ssize_t length = readlink("/proc/self/exe", line, sizeof(line) - 1);
    line[length > 0 ? length : 0] = 0;
    int out = open("/srv/witness", O_WRONLY | O_APPEND);
    if (out >= 0) { dprintf(out, "%s %s\n", own, line); close(out); }
}
"""
EPILOG = "printf '#!/bin/sh\\nsudo true\\n' > ~/epilog; chmod 755 ~/epilog"
SYS_ADMIN = 1 << 21
SLURM_USER = 64030


def test_nothing_of_the_users_root_is_loaded_by_who_has_the_pods_rights(slurm):
    plant = f"""
        cat > ~/witness.c <<'C'\n{WITNESS}\nC
        gcc -shared -fPIC -o ~/witness.so ~/witness.c
        sudo install -m 755 ~/witness.so /srv/witness.so
        sudo install -m 666 /dev/null /srv/witness
        echo /srv/witness.so | sudo tee /etc/ld.so.preload
    """
    try:
        slurm.sh(f"srun -n1 bash -ec {shlex.quote(plant)}").ok()
        slurm.sh("srun -N2 true; sbatch --quiet --wait -o /dev/null --wrap true").ok()
        slurm.sh("sbatch --quiet --wait --export=NONE -o /dev/null --wrap true").ok()
        slurm.sh("srun -n1 sudo true").ok()
        # Two seconds of what tests/witness tries in full: what slurmstepd itself starts for a user, with sudo in it.
        slurm.sh(f"{EPILOG}; srun -n1 --task-prolog=$HOME/epilog --task-epilog=$HOME/epilog true")
        lines = slurm.sh("cat /srv/witness").ok().splitlines()
    finally:
        slurm.sh("sudo rm -f /etc/ld.so.preload /srv/witness /srv/witness.so").ok()
    assert any(line.endswith("/true") for line in lines), "the library was loaded by users' programs"
    privileged = [line for line in lines if int(line.split()[0], 16) & SYS_ADMIN]
    assert not privileged


@pytest.mark.parametrize("user", [0, SLURM_USER])
def test_root_on_a_login_node_can_not_look_into_sackd_which_has_the_key(slurm, user):
    """Not by taking the id that sackd runs under either; a process of that id without its capability can be read."""
    plain = f"setpriv --reuid={SLURM_USER} --regid={SLURM_USER} --clear-groups --inh-caps=-all --bounding-set=-all"
    bait = slurm.on_pod("slurm-login-0", f"{plain} sleep 60 >/dev/null 2>&1 & echo $!").ok()
    sackd = slurm.on_pod("slurm-login-0", "pidof sackd").ok()

    def look(process: str) -> str:
        look = f"cd /proc/{process} && ls root/; cat environ; head -1 maps; head -c1 mem; readlink fd/0"
        as_user = f"setpriv --reuid={user} --regid={user} --clear-groups sh -c {shlex.quote(look)}"
        return slurm.sh(f"sudo {as_user}").text

    if user == SLURM_USER:
        assert "/usr/bin/sleep" in look(bait), "the bait can be read: the probe works"
    said = look(sackd)
    assert [line.endswith("Permission denied") for line in said.splitlines()] == [True] * 4, said
