"""The login pod: the jail's tree, limits of each user, sackd for Slurm's commands, sshd for users."""

import os
import signal
import sys
import time

from contract import names, reasons
from slurm_node.accounts import login_limits
from slurm_node.conditions.jail_watch import JailWatch
from slurm_node.conditions.listening import Listening
from slurm_node.jail import door, tree, tree_plan
from slurm_node.jail.tree_watch import TreeWatch
from slurm_node.pod import keys, node_state, paths, pod_root, settings, user_namespaces
from slurm_node.pod.log import say
from slurm_node.pod.supervise import Daemon, run
from slurm_node.pod.system import MountFlag, mount
from slurm_node.roles import prestop
from slurm_node.slurm import configless_cache, configuration
from slurm_node.slurm.config_renewal import ConfigRenewal

HOST_KEYS = ("ssh_host_ed25519_key", "ssh_host_rsa_key")
AS_SLURM = (
    *("setpriv", f"--reuid={names.SLURM_UID}", f"--regid={names.SLURM_UID}", "--clear-groups"),
    *(f"--{kept}=-all,+setpcap" for kept in ("inh-caps", "ambient-caps", "bounding-set")),
)
"""Command prefix that runs sackd as SlurmUser. It only serves its socket, so it does not need root.

No user of the jail has Slurm's id. sackd keeps one capability that it does not use, and that nobody in the jail has. So
root of the jail, as SlurmUser, cannot trace sackd. Nor can it reach sackd's memory, key or root through /proc.
"""

# Options of the command line override sshd_config.
WITH_PASSWORDS = (
    *("-o", "PasswordAuthentication=yes"),
    *("-o", "AuthenticationMethods=publickey password"),
    *("-o", "PAMServiceName=sshd-password"),
)
WITH_LDAP = ("-o", f"AuthorizedKeysFile={paths.TREE}%h/.ssh/authorized_keys {paths.SSH_LDAP_KEYS}/%u")

PROBE = (str(paths.JAIL_PROBE), str(paths.TREE), "login")
REFUSAL = "This login node can't enter the jail: {}. Tell your administrator.\n"
"""The sentence of pam_jail.c. While the jail is away, its users and keys are too, and no login reaches PAM."""


def main() -> int:
    """Builds the tree and keeps sackd and sshd running. sshd starts once Slurm's commands work."""
    node, jail, login = settings.read_node(), settings.read_jail(), settings.read_login()
    node_state.write("starting")
    user_namespaces.warn()
    pod_root.close()
    tree.wait_for_root(jail)
    door.prepare()
    # Before the tree is built: its bind of /sys makes cgroups read-only in sessions.
    login_limits.install(login)
    mounts = tree_plan.plan(jail)
    tree.build(mounts)
    key = keys.install(paths.SLURM_SECRETS / names.SLURM_KEY, paths.SLURM_KEY, names.SLURM_UID)
    # sackd makes its socket there, and can't change the configuration beside it.
    os.chown(paths.SLURM_RUN, 0, names.SLURM_UID)
    paths.SLURM_RUN.chmod(0o1775)
    for name in HOST_KEYS:
        keys.install(paths.SSH_SECRETS / name, paths.SSH_KEYS / name)
    paths.SSHD_RUN.mkdir(mode=0o755, parents=True, exist_ok=True)
    if login.ldap:
        paths.LDAP_KEYS.mkdir(mode=0o755, parents=True, exist_ok=True)
        paths.SSH_LDAP_KEYS.mkdir(mode=0o755, exist_ok=True)
        mount(str(paths.LDAP_KEYS), paths.SSH_LDAP_KEYS, flags=MountFlag.BIND)
    environment = {"SLURM_SACK_KEY": str(key), "SLURM_CONF": str(paths.FETCHED / names.SLURM_CONF)}
    # Without --conf-server it listens on no port, so nobody can send it a configuration.
    sackd = Daemon("sackd", [*AS_SLURM, f"{paths.PREFIX}/sbin/sackd", "-D"], environment)
    # Users' processes do not get it: sshd makes their environment anew.
    bounded = {"LD_PRELOAD": str(paths.SSHD_GUARD)}
    sshd = Daemon("sshd", ["/usr/sbin/sshd", "-D", "-e", *sshd_options(login)], bounded)
    roots = Daemon("roots-controller", [sys.executable, "-m", "slurm_node", "roots-controller"])
    daemons, tree_watch = [door.daemon(), roots], TreeWatch(mounts)
    renewal = ConfigRenewal(
        lambda: configuration.Fetch(node.controller, key, paths.OWN_RUN / "fetch"),
        lambda: sackd.send(signal.SIGHUP),
    )
    watch = JailWatch(PROBE, paths.SSH_BANNER, words=REFUSAL)
    listening = Listening()

    def look() -> None:
        tree_watch.tick(time.monotonic(), doubted=watch.sentence is not None)
        renewal.tick(time.monotonic())
        watch.tick(time.monotonic())
        if sshd not in daemons and configless_cache.read() is not None:
            say("Slurm's commands have their configuration: logins are open")
            daemons.extend((sackd, sshd))
        if sshd in daemons:
            listening.tick(time.monotonic())
        node_state.write(state_of(watch, listening.sentence) if sshd in daemons else configuration.WAITING)

    def take_leave() -> None:
        listener = sshd.process.pid if sshd.process else 0

        def pause(seconds: float) -> None:
            node_state.renew()
            tree_watch.pause(seconds)

        prestop.wait(node.grace_seconds, lambda: prestop.sessions_of(listener), sleep=pause)

    return run(daemons, look, take_leave)


def sshd_options(login: settings.Login) -> list[str]:
    """Returns sshd's options for who may log in, and how."""
    allowed = {"AllowUsers": login.allow_users, "AllowGroups": login.allow_groups}
    return [
        *(WITH_PASSWORDS if login.passwords else ()),
        *(WITH_LDAP if login.ldap else ()),
        *(part for key, values in allowed.items() if values for part in ("-o", f"{key}={' '.join(values)}")),
    ]


def state_of(watch: JailWatch, not_listening: str | None) -> str:
    """Returns the state for the readiness probe: "ready", or why nobody can log in and use Slurm's commands.

    Args:
        watch: the probes of the jail.
        not_listening: which daemon does not listen.
    """
    if not watch.tried:
        return reasons.NO_PROBE_YET
    return watch.sentence or not_listening or node_state.READY
