"""Promises about what a site adds to Slurm's pods: it arrives as written, and opens nothing."""

from __future__ import annotations

from typing import Any

import pytest

from components import slurm_cluster
from components.config import parse
from components.config.pods.pod_options import ROLES, NodePodOptions
from components.control.declared_pods import rights
from tests.unit.effects import pod_effects
from tests.unit.effects.pod_effects import AFFINITY, FULL, MOUNTS, PARTS, PLACED, SIDECAR, TOLERATION, VOLUMES, template
from tests.unit.samples import EVERYTHING, changed

BASE = changed("login.sets", [{"name": "data"}], changed("jail.allowedHostPaths", ["/mnt/raid"]))


def options(at: str) -> dict[str, Any]:
    return FULL if PARTS[at][2] is NodePodOptions else PLACED


@pytest.mark.parametrize("at", PARTS)
def test_each_option_reaches_the_pods_of_its_part(at: str) -> None:
    before, after = (template(at)(parse(raw)) for raw in (BASE, changed(at, options(at), BASE)))
    old, new = before["spec"], after["spec"]
    assert after["metadata"]["labels"] == before["metadata"]["labels"] | {"team": "hpc"}
    added = {"example.com/scrape": "true"}
    assert after["metadata"]["annotations"] == before["metadata"].get("annotations", {}) | added
    assert new["affinity"] == AFFINITY
    spread = {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    own = {"labelSelector": {"matchLabels": before["metadata"]["labels"]}}
    assert new["topologySpreadConstraints"] == [spread | own]
    assert (new["priorityClassName"], new["schedulerName"]) == ("high", "volcano")
    assert new["volumes"] == [*old["volumes"], *VOLUMES]
    assert new["initContainers"] == [SIDECAR]
    (was, *others), (slurms, *beside) = old["containers"], new["containers"]
    assert others == beside
    assert slurms["env"] == [*was.get("env", []), {"name": "HTTPS_PROXY", "value": "http://proxy"}]
    assert slurms["volumeMounts"] == [*was["volumeMounts"], *MOUNTS]
    rest = {"env", "volumeMounts"}
    assert {key: slurms[key] for key in slurms.keys() - rest} == {key: was[key] for key in was.keys() - rest}
    if at != "nodeSets.0.pod":
        assert new["nodeSelector"] == {"pool": "a"}
        assert new["tolerations"] == [TOLERATION]


@pytest.mark.parametrize("at", PARTS)
def test_a_part_without_options_keeps_its_pods(at: str) -> None:
    """Else an upgrade alone would replace them."""
    spec = template(at)(parse(BASE))["spec"]
    new = {"affinity", "topologySpreadConstraints", "priorityClassName", "schedulerName", "initContainers"}
    assert spec.keys().isdisjoint(new)
    assert template(at)(parse(changed(at, {}, BASE))) == template(at)(parse(BASE))


def test_the_samples_have_every_option() -> None:
    written = {path for at, (*_, model) in PARTS.items() for path in pod_effects.given(model, options(at), at)}
    assert written == pod_effects.PATHS


def test_neighbours_without_labels_are_the_pods_of_the_same_kind() -> None:
    apart = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]}
    made = template("login.pod")(parse(changed("login.pod", {"affinity": {"podAntiAffinity": apart}})))
    (term,) = made["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"] == {"matchLabels": made["metadata"]["labels"]}


def test_the_operator_may_restore_what_a_site_declares() -> None:
    made = rights(template("nodeSets.0.pod")(parse(changed("nodeSets.0.pod", FULL, BASE))))
    assert made["containers"]["shipper"]["image"] == SIDECAR["image"]
    assert {name for name in made["volumes"] if name.startswith("site-")} == {each["name"] for each in VOLUMES}
    assert made["annotations"]["example.com/scrape"] == "true"


def test_no_sidecar_can_have_the_name_of_a_container_of_ours() -> None:
    config = parse(EVERYTHING)
    there = {
        container["name"]
        for each in slurm_cluster.manifests(config)
        if (each.kind, each.name) in {(kind, name) for kind, name, _ in PARTS.values()}
        for container in each.body["spec"]["template"]["spec"]["containers"]
    }
    assert there == {*ROLES}
