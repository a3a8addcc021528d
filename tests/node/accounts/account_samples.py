"""Accounts of an image, and a user who is added to them."""

from __future__ import annotations

from slurm_node.accounts.accounts import Accounts
from slurm_node.pod.settings import User

IMAGE = Accounts(
    {
        "passwd": ("root:x:0:0:root:/root:/bin/bash", "daemon:x:1:1::/:/bin/false"),
        "shadow": ("root:*:1::::::", "daemon:*:1::::::"),
        "group": ("root:x:0:", "daemon:x:1:", "sudo:x:27:", "video:x:44:"),
        "gshadow": ("root:*::", "sudo:*::"),
        "subuid": (),
        "subgid": (),
    }
)
ALICE = User("alice", ("ssh-ed25519 A",), sudo=True)
