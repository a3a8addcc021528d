"""The worker pod: the jail's tree, then slurmd, kept running."""

import contextlib
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import node_health.node

from contract import names, reasons
from slurm_node.accounts import profile_limits
from slurm_node.conditions.drains import OwnDrain
from slurm_node.conditions.hang_notify import HangNotifier
from slurm_node.conditions.health_watch import HealthWatch
from slurm_node.conditions.jail_watch import JailWatch
from slurm_node.conditions.job_notify import JobNotifier
from slurm_node.conditions.node_extra import NodeExtra
from slurm_node.conditions.stop_notice import StopNotice
from slurm_node.jail import door, driver, nccl, tree, tree_plan
from slurm_node.jail.tree_watch import TreeWatch
from slurm_node.pod import (
    cgroups,
    keys,
    node_state,
    paths,
    pinned_memory,
    pod_root,
    settings,
    slurmd_port,
    user_namespaces,
)
from slurm_node.pod.log import NodeError, say
from slurm_node.pod.slurmd_port import HeldPort
from slurm_node.pod.supervise import Daemon, run
from slurm_node.pod.system import mount_table
from slurm_node.roots import old_roots
from slurm_node.slurm import configless_cache, configuration, container_leftovers, gres, health_runs, plugin_version
from slurm_node.slurm.late_registration import LateRegistration

AS_BOOTED = ("-b",)
"""Makes slurmctld treat the node as just booted (slurmd(8)): no job lives in a new container.

Otherwise jobs of the previous container would seem to run for minutes, until slurmctld checks for them.
"""


def main() -> int:
    """Builds the tree and keeps slurmd running, but only with a configuration that keeps jobs in the jail."""
    node, jail = settings.read_node(), settings.read_jail()
    node_state.write("starting")
    node_health.node.write(declared(node, jail))
    if sentence := plugin_version.refusal():
        node_state.write(sentence)
        raise NodeError(sentence)
    mounts = build_jail(node, jail)
    command = slurmd_command(node, socket.gethostname())
    environment = slurmd_environment()
    wait_for_gres(node, command, environment)
    watch, drain = JailWatch(), OwnDrain(socket.gethostname())
    health = HealthWatch(unknown_drains=node.unknown_drains)
    notifier, hangs = JobNotifier(), HangNotifier(socket.gethostname())
    note = NodeExtra(socket.gethostname())
    notice = StopNotice(configless_cache.Judge().refusal, drain, notifier, lambda: refusal() is None)

    def refuse() -> str | None:
        return notice.refusal(time.monotonic(), time.monotonic() - slurmd.started)

    port = HeldPort(*slurmd_port.address(configuration.wait(node_state.write)[names.SLURM_CONF], socket.gethostname()))
    slurmd = Daemon("slurmd", command, {**environment, slurmd_port.VARIABLE: "0"}, refuse, AS_BOOTED, port)
    daemons = [slurmd, *other_daemons()]
    tree_watch, late = TreeWatch(mounts), LateRegistration()
    use = old_roots.Use(jail.revision, socket.gethostname())

    def look() -> None:
        tree_watch.tick(time.monotonic(), doubted=watch.sentence is not None)
        use.tick(time.monotonic())
        late.tick(time.monotonic(), slurmd)
        # Without a configuration, the node knows no slurmctld to tell.
        fetched = configless_cache.read()
        if slurmd.process is not None and fetched is not None:
            watch.tick(time.monotonic())
            health.tick(time.monotonic(), lambda: health_runs.longest_silence(fetched.get(names.SLURM_CONF, "")))
            plugin = plugin_version.refusal()
            plugin_version.tell_guard(plugin)
            unloaded = refusal() or plugin
            causes = {**watch.causes, **health.causes, **({reasons.JAIL: unloaded} if unloaded else {})}
            if drain.tick(time.monotonic(), causes):
                notifier.tick(unloaded)
            note.tick(time.monotonic(), health.warnings, health.facts)
            hangs.tick(time.monotonic(), health.quiet)
        container_leftovers.sweep()
        node_state.write(state_of(slurmd, watch, health))

    def end() -> None:
        def pause(seconds: float) -> None:
            node_state.renew()
            tree_watch.pause(seconds)

        wait_for_jobs(node.grace_seconds, sleep=pause)

    return run(daemons, look, end)


def build_jail(node: settings.Node, jail: settings.Jail) -> list[tree_plan.Mount]:
    """Closes the pod to jobs, and builds the tree that they see. Returns its mounts."""
    user_namespaces.warn()
    pod_root.close()
    tree.wait_for_root(jail)
    door.prepare()
    # Before the tree is built: its bind of /sys includes the writable mounts, for slurmstepd.
    groups = cgroups.make_writable()
    if node.processes:
        cgroups.limit_jobs(groups, node.processes)
    profile_limits.install(groups)
    mounts = tree_plan.plan(
        jail, spool=paths.SPOOL, nccl_conf=nccl.write(node.nccl), task_scripts=paths.ETC_TASK_SCRIPTS
    )
    tree.build(mounts)
    if node.pins_memory:
        pinned_memory.raise_limit()
    return mounts


def slurmd_environment() -> dict[str, str]:
    """Puts Slurm's key in its place, and returns slurmd's variables."""
    key = keys.install(paths.SLURM_SECRETS / names.SLURM_KEY, paths.SLURM_KEY)
    return {"SLURM_SACK_KEY": str(key), "SLURM_CONF": str(paths.FETCHED / names.SLURM_CONF)}


def wait_for_gres(node: settings.Node, command: Sequence[str], environment: dict[str, str]) -> None:
    """Waits until slurmd finds the generic resources that the node set declares."""
    if not node.gres:
        return
    # slurmd -G prints and ends by itself, so it needs no -D.
    in_foreground = [word for word in command if word != "-D"]
    gres.wait(
        settings.gres_counts(node.gres),
        frozenset({"gpu", *node.gres_with_files}),
        lambda: gres.ask_slurmd(in_foreground, environment),
        node_state.write,
    )


def other_daemons() -> list[Daemon]:
    """Returns what runs beside slurmd."""
    if not driver.put_by_toolkit(mount_table()):
        return [door.daemon()]
    return [door.daemon(), Daemon("driver", [sys.executable, "-m", "slurm_node", "driver"])]


def wait_for_jobs(
    seconds: float,
    proc: Path = Path("/proc"),
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Waits until no job has a step here, up to a deadline: somebody deleted the pod under its jobs.

    Every job has one on each of its nodes (PrologFlags=Contain). slurmctld is not asked: it may be away.
    """
    end = clock() + seconds
    if steps(proc):
        say(f"jobs have {seconds:.0f} s to end")
    while steps(proc) and clock() < end:
        sleep(0.5)  # The kernel tells nobody when another one's child ends.


def steps(proc: Path = Path("/proc")) -> int:
    """Counts the steps of jobs in this pod, without slurmd's own `slurmstepd infinity`, which holds its cgroup."""
    count = 0
    for command in proc.glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = command.read_bytes().split(b"\0")
            count += Path(words[0].decode(errors="replace")).name.startswith("slurmstepd:")
    return count


def declared(node: settings.Node, jail: settings.Jail) -> node_health.node.Declared:
    """Returns the node's declaration, which health checks compare it with."""
    gpus = settings.gres_counts(node.gres or "").get("gpu", 0)
    return node_health.node.Declared(
        cpus=node.cpus,
        shares_cpus=node.shares_cpus,
        memory_mib=node.memory_mib,
        gpus=node.divided_gpus or gpus,
        mig=node.divided_gpus is not None,
        nvidia=not node.other_gpus,
        rdma=node.rdma,
        rdma_adapters=node.rdma_adapters,
        least_free_percent=node.least_free_percent,
        submounts=tuple(submount.path for submount in jail.submounts),
        shm_mib=jail.shm_mib,
        controller=node.controller,
        unknown_drains=node.unknown_drains,
        hangs_after=node.hangs_after,
    )


def slurmd_command(node: settings.Node, hostname: str) -> list[str]:
    """Returns slurmd's arguments: a dynamic node that reads the fetched configuration at each start."""
    return [str(paths.SLURMD_START), "-D", "-Z", "-N", hostname, "--conf", node.slurmd_conf(hostname)]


def refusal() -> str | None:
    """Returns why the fetched configuration must not be used; None while it is right or missing."""
    files = configless_cache.read()
    return configless_cache.refusal(files) if files is not None else None


def state_of(slurmd: Daemon, watch: JailWatch, health: HealthWatch) -> str:
    """Returns the state for the readiness probe: "ready", or why not."""
    if slurmd.process is None:
        return refusal() or "slurmd is not running"
    if configless_cache.read() is None:
        return configuration.WAITING
    return (
        refusal()
        or plugin_version.refusal()
        or watch.sentence
        or health.sentence
        or (node_state.READY if watch.tried else reasons.NO_PROBE_YET)
    )
