"""A stand-in for the official Kubernetes plugin of Pulumi, for networks that cannot download it.

Pulumi finds a plugin by the name of its executable on PATH, and one on PATH shadows an installed one. So
`devcluster/standin/bin` goes on PATH only when `pulumi plugin ls` shows no official `kubernetes` plugin of the SDK's
version and one attempt to download it has failed:

    PATH=<repository>/devcluster/standin/bin:$PATH pulumi up

The launcher there runs this package with the Python of the repository's `.venv`; `PULUMI_STANDIN_PYTHON` names another.

It behaves as the official provider 4.32 does, never kinder. State made by one previews without a change under the
other. It refuses features that the program does not use, with a message (docs/adr/0029).
"""

from pathlib import Path

VERSION = "4.32.0"
"""The version of the official provider whose behaviour this one has, and for which the pinned SDK asks."""
FOLDER = Path(__file__).parent / "bin"
"""The folder for PATH."""
VARIABLE = "PULUMI_KUBERNETES_PLUGIN"
"""Environment variable that names another plugin."""
