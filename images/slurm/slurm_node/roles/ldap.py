"""The pod that follows an LDAP directory: its users become users of every root, as if they were made there.

So neither worker nor login node asks the LDAP server. No LDAP client code runs with those pods' rights or in the jail.
Jobs and logins go on while the server is down.
"""

import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from contract import names
from slurm_node.accounts import account_sync, ldap_homes, ldap_users
from slurm_node.pod import keys, node_state, paths, settings
from slurm_node.pod.log import NodeError, say
from slurm_node.pod.settings import Jail, Ldap
from slurm_node.pod.system import is_mount_point

PASSWORD = paths.OWN_RUN / "bind-password"
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
SECONDS = 60
"""Time for the server's answer. The whole query may take twice as long."""
RETRY_SECONDS = 15.0
USER_ATTRIBUTES = ("uid", "uidNumber", "gidNumber", "homeDirectory", "loginShell", "gecos", "cn", "sshPublicKey")
GROUP_ATTRIBUTES = ("cn", "gidNumber", "memberUid", "member")
MOST_TOLD = 20
ROUND_SECONDS = 600.0
"""Time for one round: two queries, and what they say written into every root."""


def main() -> int:
    """Queries the LDAP server again and again. A failed query changes nothing."""
    wanted, jail = settings.read_ldap(), settings.read_jail()
    if not is_mount_point(paths.VOLUME):
        raise NodeError(f"{paths.VOLUME} is not a mount: the pod has no jail volume")
    told: tuple[str, ...] = ()
    while True:
        try:
            refused = follow(wanted, jail)
        except (NodeError, OSError) as error:
            _note(f"the directory is not followed: {error}")
            time.sleep(min(RETRY_SECONDS, wanted.seconds))  # Not earlier: the server may be busy.
            continue
        if refused != told:
            for sentence in refused[:MOST_TOLD]:
                say(f"not taken over: {sentence}")
            if refused[MOST_TOLD:]:
                say(f"not taken over: {len(refused) - MOST_TOLD} more")
        told = refused
        _note(node_state.READY, wanted.seconds + ROUND_SECONDS)
        time.sleep(wanted.seconds)  # directory.interval: LDAP has no change events.


def follow(wanted: Ldap, jail: Jail, volume: Path = paths.VOLUME) -> tuple[str, ...]:
    """Writes the LDAP server's users, groups, homes and SSH keys into every root of the jail.

    Returns:
        A sentence for each user or group that it leaves out, and why.

    Raises:
        NodeError: the server does not answer, answers incompletely, or has no user.
        OSError: accounts, homes or keys can't be written.
    """
    try:
        answer = ldap_users.read(
            ask(wanted, wanted.user_filter, USER_ATTRIBUTES), ask(wanted, wanted.group_filter, GROUP_ATTRIBUTES)
        )
    except ValueError as error:
        raise NodeError(f"{wanted.uri} answers what is no LDIF: {error}") from None
    if not answer.homes:
        # A wrong filter or base would remove every user.
        raise NodeError(f"{wanted.uri} names no user in {wanted.base} for {wanted.user_filter}: nothing was changed")
    if not account_sync.complete_roots(volume):
        raise NodeError("the populate Job has not completed a root yet")
    taken = account_sync.synchronize(volume, ldap=answer)
    assert taken is not None
    # The home comes before the key that lets its user log in.
    ldap_homes.make(taken, jail, volume)
    ldap_homes.write_keys(taken.keys, volume / paths.LDAP_KEYS.relative_to(paths.VOLUME))
    return taken.refused


def ask(wanted: Ldap, question: str, attributes: tuple[str, ...]) -> str:
    """Returns the LDIF of the answer to one query.

    Raises:
        NodeError: the query failed, with ldapsearch's words, or the answer is not complete.
    """
    command = ["ldapsearch", "-LLL", "-x", "-H", wanted.uri, "-b", wanted.base]
    command += ["-o", "ldif-wrap=no", "-o", "nettimeout=10", "-l", str(SECONDS), "-E", "pr=500/noprompt"]
    if wanted.uri.startswith("ldap://"):
        # -ZZ: without TLS nothing is sent.
        command += ["-ZZ"]
    if wanted.bind is not None:
        _copy_password(paths.LDAP_SECRETS / names.LDAP_PASSWORD)
        command += ["-D", wanted.bind, "-y", str(PASSWORD)]
    try:
        asked = subprocess.run(
            [*command, question, *attributes], capture_output=True, timeout=2 * SECONDS, check=False, env=_tls(wanted)
        )
    except subprocess.TimeoutExpired:
        raise NodeError(f"{wanted.uri} did not answer in {2 * SECONDS} s") from None
    if asked.returncode != 0:
        why = " ".join(asked.stderr.decode(errors="replace").split())
        raise NodeError(f"{wanted.uri}: {why or f'ldapsearch ended with {asked.returncode}'}")
    return asked.stdout.decode()


def _tls(wanted: Ldap) -> Mapping[str, str]:
    """Ldapsearch's whole environment: it sends nothing before the server's certificate is verified (ldap.conf(5))."""
    file = paths.LDAP_SECRETS / names.TLS_AUTHORITY if wanted.own_authority else AUTHORITIES
    return {"PATH": os.defpath, "LDAPTLS_REQCERT": "demand", "LDAPTLS_CACERT": str(file)}


def _copy_password(secret: Path) -> None:
    """Copies the password without a last newline, which ldapsearch would take for a part of it."""
    keys.install(secret, PASSWORD)
    PASSWORD.write_bytes(PASSWORD.read_bytes().rstrip(b"\r\n"))


def _note(state: str, seconds: float = node_state.COUNTS_SECONDS) -> None:
    if node_state.write(state, seconds):
        say("the directory is followed" if state == node_state.READY else state)
