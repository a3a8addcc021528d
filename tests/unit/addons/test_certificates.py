"""Certificates: their issuer, their servers, and the clients that check them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from components import slurm_cluster
from components.addons import certificates
from components.config import parse
from components.config.program import Config
from components.slurm import rest_api
from components.slurm.conf import slurmdbd_conf
from contract import names
from tests.unit.samples import SMALL, changed, run_program

WITH_DATABASE = changed("certificates.mode", "existing", changed("accounting", {"mode": "mariadb"}))
ON = changed("accounting", {"mode": "off"}, WITH_DATABASE)


def objects(config: Config) -> dict[str, Any]:
    """Return what is declared about certificates, by kind and name."""
    return {f"{each.kind}/{each.name}": each.body["spec"] for each in certificates.manifests(config)}


def pod(config: Config, name: str) -> Any:
    """The pod spec of a Deployment."""
    found = [each for each in slurm_cluster.manifests(config) if (each.kind, each.name) == ("Deployment", name)]
    return found[0].body["spec"]["template"]["spec"]


def test_without_certificates_nothing_speaks_tls() -> None:
    config = parse(SMALL)
    assert certificates.manifests(config) == []
    assert rest_api.url(config).startswith("http://")
    assert [each["name"] for each in pod(config, names.REST)["containers"]] == ["rest"]
    assert all(each["name"] != "rest-authority" for each in pod(config, names.OPERATOR)["volumes"])


def test_a_ca_of_its_own_signs_unless_an_issuer_is_named() -> None:
    own = objects(parse(ON))
    assert list(own) == [
        "Issuer/slurm-self-signed",
        "Certificate/slurm-ca",
        "Issuer/slurm-ca",
        "Certificate/slurm-rest",
    ]
    assert own["Certificate/slurm-ca"]["isCA"] is True
    assert own["Issuer/slurm-ca"] == {"ca": {"secretName": own["Certificate/slurm-ca"]["secretName"]}}
    assert own["Certificate/slurm-rest"]["issuerRef"]["name"] == "slurm-ca"
    theirs = objects(parse(changed("certificates.issuer", {"name": "corp", "kind": "ClusterIssuer"}, ON)))
    assert list(theirs) == ["Certificate/slurm-rest"]
    assert theirs["Certificate/slurm-rest"]["issuerRef"] == {
        "name": "corp",
        "kind": "ClusterIssuer",
        "group": "cert-manager.io",
    }


def test_the_operators_address_of_slurmrestd_is_a_name_in_its_certificate() -> None:
    config = parse(ON)
    url = slurm_cluster.cluster_resource(config)["spec"]["rest"]["url"]
    assert url == "https://slurm-rest:6820"
    certified = objects(config)["Certificate/slurm-rest"]["dnsNames"]
    for address in (url, rest_api.url(config)):
        assert address.removeprefix("https://").partition(":")[0] in certified


def test_with_tls_slurmrestd_itself_is_on_no_port() -> None:
    rest, proxy = pod(parse(ON), names.REST)["containers"]
    assert "ports" not in rest
    assert rest["env"] == [{"name": "SLURM_REST", "value": '{"socket":true}'}]
    assert proxy["ports"] == [{"name": "slurmrestd", "containerPort": names.SLURMRESTD_PORT}]
    assert all(each["name"] != "tls" for each in rest["volumeMounts"]), "slurmrestd has no business with the key"


def test_the_operator_sees_the_ca_alone_and_starts_without_it() -> None:
    volume = next(each for each in pod(parse(ON), names.OPERATOR)["volumes"] if each["name"] == "rest-authority")
    assert volume["secret"] == {
        "secretName": names.REST_TLS,
        "defaultMode": 0o440,
        "items": [{"key": "ca.crt", "path": "ca.crt"}],
        "optional": True,
    }


def test_certificates_are_not_in_the_ledger_and_up_waits_for_them() -> None:
    for each in certificates.manifests(parse(ON)):
        assert each.held is False
        assert each.body["metadata"]["annotations"]["pulumi.com/waitFor"] == "condition=Ready"
        assert each.deadline_seconds == 1800


@pytest.mark.parametrize("preview", [True, False])
def test_each_certificate_comes_after_what_signs_it_and_before_who_shows_or_checks_it(preview: bool) -> None:
    engine, outputs = run_program(ON, preview=preview)
    assert engine.one("Certificates", "certificates").type == "pulumi-slurm:index:Certificates"
    chain = [
        engine.one("Issuer", names.SELF_SIGNED),
        engine.one("Certificate", names.CA),
        engine.one("Issuer", names.CA),
        engine.one("Certificate", names.REST),
    ]
    for before, after in itertools.pairwise(chain):
        assert before.urn in after.dependencies
        assert after.type.startswith("kubernetes:cert-manager.io/v1:")
    for name in (names.REST, names.OPERATOR):
        assert chain[-1].urn in engine.one("Deployment", name).dependencies
    assert outputs["rest"] == "https://slurm-rest.slurm.svc.cluster.local:6820"


@pytest.mark.parametrize("preview", [True, False])
def test_install_brings_cert_manager_before_it_is_asked(preview: bool) -> None:
    raw = changed("certificates", {"mode": "install", "version": "v1.2.3", "namespace": "issuing"})
    engine, _ = run_program(raw, preview=preview)
    installed = engine.one("CertManager", "cert-manager")
    assert installed.type == "kubernetes-cert-manager:index:CertManager"
    assert installed.inputs["installCRDs"] is True
    assert installed.inputs["helmOptions"] == {"version": "v1.2.3", "namespace": "issuing", "createNamespace": True}
    assert "pulumi-slurm:index:Certificates" in installed.urn
    provider = engine.one("kubernetes", "kubernetes").urn
    assert dict(installed.request.providers)["kubernetes"].startswith(provider), "it would go to another Kubernetes"
    assert installed.urn in engine.one("Issuer", names.SELF_SIGNED).dependencies


def test_other_modes_bring_nothing_that_needs_its_plugin() -> None:
    for raw in (SMALL, ON):
        engine, _ = run_program(raw)
        assert not [each for each in engine.registered if "cert-manager:" in each.type]


def stateful(config: Config, name: str) -> Any:
    """The pod spec of a StatefulSet."""
    found = [each for each in slurm_cluster.manifests(config) if (each.kind, each.name) == ("StatefulSet", name)]
    return found[0].body["spec"]["template"]["spec"]


def test_the_database_takes_encrypted_connections_alone_and_slurmdbd_checks_who_it_is() -> None:
    config = parse(WITH_DATABASE)
    container = stateful(config, names.DATABASE)["containers"][0]
    assert "--require-secure-transport=ON" in container["args"]
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "tls"]
    for option, key in (("ca", "ca.crt"), ("cert", "tls.crt"), ("key", "tls.key")):
        assert f"--ssl-{option}={mount['mountPath']}/{key}" in container["args"]
    accounting = stateful(config, names.ACCOUNTING)
    (volume,) = [each["secret"] for each in accounting["volumes"] if each["name"] == "database-authority"]
    assert volume["secretName"] == names.DATABASE_TLS
    assert volume["items"] == [{"key": "ca.crt", "path": "ca.crt"}], "slurmdbd has no business with the key"
    (mount,) = [each for each in accounting["containers"][0]["volumeMounts"] if each["name"] == "database-authority"]
    lines = slurmdbd_conf.slurmdbd_conf(config).splitlines()
    assert f"StorageParameters=SSL_CA={mount['mountPath']}/ca.crt" in lines
    host = next(line.partition("=")[2] for line in lines if line.startswith("StorageHost="))
    assert host in objects(config)["Certificate/slurm-database"]["dnsNames"]


def test_without_certificates_the_database_is_as_it_was() -> None:
    config = parse(changed("accounting", {"mode": "mariadb"}))
    assert not any("ssl" in each for each in stateful(config, names.DATABASE)["containers"][0]["args"])
    assert "StorageParameters" not in slurmdbd_conf.slurmdbd_conf(config)


def test_slurmrestd_may_stay_in_clear_beside_a_database_with_tls() -> None:
    config = parse(changed("rest.tls", False, WITH_DATABASE))
    assert "Certificate/slurm-rest" not in objects(config)
    assert "Certificate/slurm-database" in objects(config)
    assert rest_api.url(config).startswith("http://")
    assert all(each["name"] != "rest-authority" for each in pod(config, names.OPERATOR)["volumes"])


@pytest.mark.parametrize("preview", [True, False])
def test_the_databases_certificate_is_there_before_the_database(preview: bool) -> None:
    engine, _ = run_program(WITH_DATABASE, preview=preview)
    certificate = engine.one("Certificate", names.DATABASE).urn
    for name in (names.DATABASE, names.ACCOUNTING):
        assert certificate in engine.one("StatefulSet", name).dependencies
