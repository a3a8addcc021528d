"""Enforces NetworkPolicies in the dev cluster, whose bridge does not know them.

It works in the node's network namespace, where br_netfilter shows it bridged traffic too. Nothing that runs in a pod
can take its rules away. A pod is open from its start until its address is known here, some milliseconds. Run by the
node's supervisor as `python -m devcluster.controllers.network_policy KUBECONFIG`.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

from devcluster.controllers import informer, policy_rules
from devcluster.controllers.policy_rules import Refusal, World

PODS = "/api/v1/pods"
NAMESPACES = "/api/v1/namespaces"
POLICIES = "/apis/networking.k8s.io/v1/networkpolicies"
NFT_SECONDS = 60
NAME = "devcluster-network-policy"


class Enforcer:
    """Keeps the ruleset equal to the objects."""

    def __init__(self, kubeconfig: Path) -> None:
        self._api = informer.client(kubeconfig)
        self._informer = informer.Informer(self._api, (PODS, NAMESPACES, POLICIES))
        self._applied = ""
        self._told: set[tuple[str, int]] = set()

    async def run(self) -> None:
        """Enforce for ever."""
        await self._informer.follow(self._pass)

    async def _pass(self) -> None:
        world = World.of(self._informer.objects(PODS), self._informer.objects(NAMESPACES))
        wanted, refusals = policy_rules.ruleset(world, self._informer.objects(POLICIES))
        if wanted != self._applied:
            await asyncio.to_thread(_apply, wanted)
            self._applied = wanted
            now = time.strftime("%H:%M:%S")
            print(f"{now} applied {wanted.count('  chain ')} chains for {len(world.pods)} pods", flush=True)
        for refusal in refusals:
            await self._tell(refusal)

    async def _tell(self, refusal: Refusal) -> None:
        metadata = refusal.policy["metadata"]
        key = (metadata["uid"], metadata.get("generation", 0))
        if key in self._told:
            return
        message = f"{refusal.reason} is not enforced by this dev cluster: the pods that it selects are closed"
        await informer.warn(self._api, "networking.k8s.io/v1", "NetworkPolicy", refusal.policy, NAME, message)
        self._told.add(key)


def _apply(ruleset: str) -> None:
    try:
        done = subprocess.run(
            ["nft", "-f", "-"], input=ruleset, capture_output=True, text=True, timeout=NFT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        # To end here would cost a start of Python, on a machine that has no time even for nft.
        raise informer.TryAgainError(f"nft has not ended within {NFT_SECONDS} s") from None
    if done.returncode != 0:
        # A refused ruleset is a defect of this module, so it ends and `status` shows that.
        raise RuntimeError(f"nft refused the ruleset: {done.stderr}\n{ruleset}")


def main() -> None:
    """Run for the cluster named by the argument."""
    asyncio.run(Enforcer(Path(sys.argv[1])).run())


if __name__ == "__main__":
    main()
