"""The client of slurmrestd, made anew when its URL or its CA changes."""

from __future__ import annotations

from pathlib import Path

from slurm_operator.clients.slurm.slurmrestd import SlurmRest


class RenewedRest:
    """The client of one slurmrestd at a time.

    Attributes:
        client: the one that was made last, None before the first.
    """

    def __init__(self, key_file: Path, authority_file: Path) -> None:
        self.client: SlurmRest | None = None
        self._key_file = key_file
        self._authority_file = authority_file

    async def at(self, url: str) -> SlurmRest:
        """Return the client of a pass for a URL; one for another URL or CA is closed."""
        authority = _authority(self._authority_file) if url.startswith("https:") else None
        # cert-manager renews the CA too: kubelet changes the file, and from then on the new one counts.
        if self.client is None or (self.client.url, self.client.authority) != (url, authority):
            await self.close()
            self.client = SlurmRest(url, self._key_file, authority)
        self.client.begin_pass()
        return self.client

    async def close(self) -> None:
        """Close its connections."""
        if self.client:
            await self.client.close()


def _authority(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None
