"""The fake cert-manager behaves like the real one, as far as our manifests need it."""

from __future__ import annotations

import datetime
from typing import Any

import jsonschema
import pytest
from cryptography import x509

from components.addons import certificates
from components.config import parse
from devcluster.fakes import cert_manager
from tests.unit.samples import changed

# https://cert-manager.io/docs/reference/api-docs/, cert-manager.io/v1; and deploy/crds of its sources.
REAL = {
    "Certificate": {
        "additionalOutputFormats", "commonName", "dnsNames", "duration", "emailAddresses", "encodeUsagesInRequest",
        "ipAddresses", "isCA", "issuerRef", "keystores", "literalSubject", "nameConstraints", "otherNames",
        "privateKey", "renewBefore", "renewBeforePercentage", "revisionHistoryLimit", "secretName", "secretTemplate",
        "signatureAlgorithm", "subject", "uris", "usages",
    },
    "Issuer": {"acme", "ca", "selfSigned", "vault", "venafi"},
    "ClusterIssuer": {"acme", "ca", "selfSigned", "vault", "venafi"},
}  # fmt: skip
REAL_INSIDE = {
    "privateKey": {"algorithm", "encoding", "rotationPolicy", "size"},
    "issuerRef": {"group", "kind", "name"},
    "ca": {"crlDistributionPoints", "issuingCertificateURLs", "ocspServers", "secretName"},
    "secretTemplate": {"annotations", "labels"},
    "selfSigned": {"crlDistributionPoints"},
}
REQUIRED = {"Certificate": ["issuerRef", "secretName"], "Issuer": [], "ClusterIssuer": []}
SCHEMAS = {
    crd["spec"]["names"]["kind"]: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for crd in cert_manager.crds()
}
OWN = certificates.manifests(
    parse(changed("certificates.mode", "existing", changed("accounting", {"mode": "mariadb"})))
)


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema under which an unknown field is wrong, as it is to a server-side apply."""
    inner = {key: strict(value) for key, value in schema.get("properties", {}).items()}
    return {**schema, "properties": inner, "additionalProperties": False} if inner else schema


@pytest.mark.parametrize("kind", REAL)
def test_the_fake_knows_no_field_that_the_real_one_lacks_and_requires_the_same(kind: str) -> None:
    spec = SCHEMAS[kind]["properties"]["spec"]
    assert spec["properties"].keys() <= REAL[kind]
    for name, inside in spec["properties"].items():
        if "properties" in inside:
            assert inside["properties"].keys() <= REAL_INSIDE[name]
    assert sorted(spec.get("required", [])) == REQUIRED[kind]


def test_groups_names_and_scopes_are_the_real_ones() -> None:
    told = {(crd["metadata"]["name"], crd["spec"]["scope"]) for crd in cert_manager.crds()}
    assert told == {
        ("certificates.cert-manager.io", "Namespaced"),
        ("issuers.cert-manager.io", "Namespaced"),
        ("clusterissuers.cert-manager.io", "Cluster"),
    }
    assert all(crd["spec"]["versions"][0]["subresources"] == {"status": {}} for crd in cert_manager.crds())


@pytest.mark.parametrize("manifest", OWN, ids=lambda each: f"{each.kind}-{each.name}")
def test_what_we_declare_is_valid(manifest: Any) -> None:
    schema = SCHEMAS[manifest.kind]["properties"]["spec"]
    jsonschema.validate(manifest.body["spec"], strict(schema))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**manifest.body["spec"], "secretname": "x"}, strict(schema))


def test_it_issues_in_the_order_in_which_the_real_one_could() -> None:
    secrets: dict[str, Any] = {}
    there = {f"{each.kind}/{each.name}": dict(each.body) for each in OWN}
    rounds = []
    for _ in range(5):
        issuers = [each for each in there.values() if each["kind"] == "Issuer"]
        wanted = [each for each in there.values() if each["kind"] == "Certificate"]
        answers = cert_manager.issue(issuers, wanted, secrets.get)
        rounds.append([f"{each['kind']}/{each['metadata']['name']}" for each in answers])
        for each in answers:
            if each["kind"] == "Secret":
                secrets[each["metadata"]["name"]] = each
            else:
                there[f"{each['kind']}/{each['metadata']['name']}"] = each
    assert rounds == [
        ["Issuer/slurm-self-signed"],
        ["Secret/slurm-ca", "Certificate/slurm-ca"],
        ["Issuer/slurm-ca"],
        ["Secret/slurm-rest-tls", "Certificate/slurm-rest", "Secret/slurm-database-tls", "Certificate/slurm-database"],
        [],
    ]
    assert all(secret["data"].keys() == {"tls.crt", "tls.key", "ca.crt"} for secret in secrets.values())


def test_what_it_issues_says_what_was_asked() -> None:
    authority = cert_manager.make({"isCA": True, "commonName": "a"}, None)
    pair = cert_manager.make({"dnsNames": ["slurm-rest"], "duration": "1h", "usages": ["server auth"]}, authority)
    leaf, root = (x509.load_pem_x509_certificate(each.certificate) for each in (pair, authority))
    leaf.verify_directly_issued_by(root)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["slurm-rest"]
    assert leaf.not_valid_after_utc - leaf.not_valid_before_utc == datetime.timedelta(minutes=61)
