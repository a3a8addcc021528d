"""The login pod: the jail's tree, sackd for Slurm's commands, sshd for people."""

from slurm_node import fetched, keys, paths, settings, tree
from slurm_node.log import say
from slurm_node.supervise import Daemon, run

HOST_KEYS = ("ssh_host_ed25519_key", "ssh_host_rsa_key")


def main() -> int:
    """Builds the tree and keeps sackd and sshd running; sshd starts once Slurm's commands would work."""
    node, jail = settings.read_node(), settings.read_jail()
    tree.wait_for_root(jail)
    tree.build(tree.plan(jail))
    key = keys.install(paths.SLURM_SECRETS / "slurm.key", paths.OWN_RUN / "slurm.key")
    for name in HOST_KEYS:
        keys.install(paths.SSH_SECRETS / name, paths.SSH_KEYS / name)
    paths.SSHD_RUN.mkdir(mode=0o755, parents=True, exist_ok=True)
    sackd = Daemon(
        "sackd", ["/opt/slurm/sbin/sackd", "-D", "--conf-server", node.controller], {"SLURM_SACK_KEY": str(key)}
    )
    sshd = Daemon("sshd", ["/usr/sbin/sshd", "-D", "-e"])
    daemons = [sackd]

    def start_sshd() -> None:
        if sshd not in daemons and fetched.read() is not None:
            say("sackd has its configuration: logins are open")
            daemons.append(sshd)

    return run(daemons, start_sshd)
