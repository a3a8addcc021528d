"""Limits of workers' control groups, which no line of a user's may change."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field

from tests.witness.cluster import Cluster
from tests.witness.values import LIMITS

# The pod's root writes what is there already: what it can't write proves nothing.
GIVE = """
for file in {files}; do
    [ -e $file ] && was=$(cat $file) && echo "$was" > $file && chown {user} $file && echo "$file $was"
done
true
"""
TAKE = "for file in {files}; do [ ! -e $file ] || chown 0 $file; done"


@dataclass
class Limits:
    """The limits of a cluster's workers that their pods' root can write.

    Args:
        cluster: where.
    """

    cluster: Cluster
    _before: dict[str, str] = field(default_factory=dict)

    def give_away(self) -> None:
        """Makes them the user's, and keeps in mind what they are."""
        user = self.cluster.at_login("id -u").stdout.strip()
        assert user.isdigit(), user
        script = GIVE.format(files=shlex.join(LIMITS), user=user)
        self._before.update({pod: self.cluster.in_pod(pod, script) for pod in self.cluster.workers})

    def take_back(self) -> None:
        """Makes them root's again."""
        for pod in self.cluster.workers:
            self.cluster.in_pod(pod, TAKE.format(files=shlex.join(LIMITS)))

    def changes(self) -> list[str]:
        """One sentence for each pod whose limits are others now, or that has none."""
        return [sentence for pod, before in self._before.items() for sentence in self._of_pod(pod, before)]

    def _of_pod(self, pod: str, before: str) -> list[str]:
        names = [line.split()[0] for line in before.splitlines()]
        if not names:
            return [f"{pod} has no limit that its own root can write"]
        after = self.cluster.in_pod(pod, f"for file in {shlex.join(names)}; do echo $file $(cat $file); done")
        return [] if after == before else [f"{pod} had the limits {before!r}, and has {after!r}"]
