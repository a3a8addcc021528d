"""The checks that slurmd runs before it registers: what they ask of Slurm is answered by then."""

from __future__ import annotations

import json

from tests.image.small_cluster import NewCluster

KEEP = """
cp /usr/sbin/node-health /run/checks
echo '#!/bin/sh
/run/checks "$@"
status=$?
[ -e /run/first.json ] || cp /run/slurm-node/health.json /run/first.json
exit $status' > /run/keeps
chmod 755 /run/checks /run/keeps
mount --bind /run/keeps /usr/sbin/node-health
"""
"""Keeps the result of the first run."""


def test_what_the_first_checks_ask_of_slurm_is_answered(new_cluster: NewCluster) -> None:
    with new_cluster(first=KEEP) as cluster:
        said = json.loads(cluster.pod("cat /run/first.json").stdout)
    verdicts = {row["check"]: (row["verdict"], row["evidence"]) for row in said["checks"]}
    assert verdicts["controller"] == ("PASS", "slurmctld answers")
    verdict, evidence = verdicts["versions"]
    assert (verdict, evidence.startswith("slurmd has 26.05.")) == ("PASS", True), evidence
