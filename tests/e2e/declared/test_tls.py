"""TLS inside the cluster, switched on by one edit of the config and off again. cert-manager is played by a fake."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest

from devcluster.fakes import cert_manager
from tests.e2e.declared.played_cert_manager import Played

OPERATOR = "deployment/slurm-operator"
SECRETS = ("slurm-ca", "slurm-rest-tls", "slurm-database-tls")
SERIAL = """
import socket, ssl
context = ssl.create_default_context(cafile="/run/secrets/rest-authority/ca.crt")
with context.wrap_socket(socket.create_connection(("slurm-rest", 6820), 5), server_hostname="slurm-rest") as shown:
    print(shown.getpeercert()["serialNumber"])
"""
IN_CLEAR = """
import http.client
connection = http.client.HTTPConnection("slurm-rest", 6820, timeout=5)
connection.request("GET", "/slurm/v0.0.45/ping/")
print(connection.getresponse().status)
"""


def from_operator(slurm, script: str):
    """A Python script in the operator's pod, which alone may reach slurmrestd's port."""
    return slurm.kubectl("exec", OPERATOR, "--", "python3", "-c", script)


def condition(slurm, kind: str) -> tuple[str, str, str]:
    """Return a condition's status, reason and message."""
    found = slurm.condition(kind)
    return found["status"], found["reason"], found["message"]


def sql(slurm, statement: str) -> str:
    """Return what the database's administrator gets for a statement, over the pod's own socket."""
    client = "mariadb --no-defaults --socket=/run/mariadb/mariadb.sock --user=mariadb --skip-column-names --batch"
    return slurm.on_pod("slurm-database-0", f'{client} --execute="{statement}"').ok()


def of_accounting(slurm) -> str:
    """Return what the condition says of slurmdbd, if anything is wrong with it."""
    status, reason, message = condition(slurm, "Degraded")
    return message if (status, reason) == ("True", "AccountingNotReady") else ""


def recorded(slurm, job: str) -> bool:
    return job in slurm.sh("sacct -n -X -P -o jobid").stdout.split()


def with_another_authority(tls: Played, name: str) -> tuple[dict, dict, str]:
    """A Secret as it is, the same with a CA that signed nothing, and that CA."""
    found = tls.secret(name)
    metadata = {key: found["metadata"][key] for key in ("name", "namespace")}
    right = {**{key: found[key] for key in ("apiVersion", "kind", "type", "data")}, "metadata": metadata}
    authority = cert_manager.make({"isCA": True, "commonName": "another"}, None).certificate
    data = {**right["data"], "ca.crt": base64.b64encode(authority).decode()}
    return right, {**right, "data": data}, authority.decode()


def hurry(slurm, component: str) -> None:
    """kubelet looks at mounted Secrets about once a minute; when the pod itself changes, it looks at once."""
    label = f"app.kubernetes.io/component={component}"
    pods = slurm.get("pods", "-l", label)["items"]
    for pod in pods:
        stamp = f"tests/touched=at-{pod['metadata']['resourceVersion']}"
        slurm.kubectl("annotate", "pod", pod["metadata"]["name"], stamp, "--overwrite")


@pytest.fixture(scope="module")
def tls(slurm) -> Iterator[Played]:
    with Played(slurm).playing() as played:
        slurm.pulumi("config", "set", "--path", "pulumi-slurm:certificates.mode", "existing").ok()
        try:
            slurm.pulumi("up", "--yes", "--skip-preview").ok()
            yield played
        finally:
            slurm.pulumi("config", "rm", "--path", "pulumi-slurm:certificates").ok()
            slurm.pulumi("up", "--yes", "--skip-preview").ok()
            # cert-manager, too, leaves its Secrets behind.
            slurm.kubectl("delete", "secret", *SECRETS, "--ignore-not-found").ok()


@pytest.fixture
def database(slurm) -> None:
    slurm.kubectl("get", "statefulset", "slurm-database").ok()


def test_up_ends_with_a_cluster_that_is_available_over_https(slurm, tls):
    assert slurm.get("slurmcluster", "dev")["spec"]["rest"]["url"] == "https://slurm-rest:6820"
    slurm.wait("Available", lambda: condition(slurm, "Available")[0] == "True", 60)
    assert from_operator(slurm, SERIAL).ok()
    assert len(slurm.sh("srun -N2 hostname").ok().split()) == 2
    assert tls.trouble is None


def test_a_preview_after_it_is_empty(slurm, tls):
    slurm.pulumi("preview", "--refresh", "--expect-no-changes").ok()


def test_plain_http_gets_no_answer(slurm, tls):
    refused = from_operator(slurm, IN_CLEAR)
    assert refused.status != 0
    assert "RemoteDisconnected" in refused.stderr or "ConnectionReset" in refused.stderr
    listening = "import re; print([line for line in open('/proc/net/tcp').read().splitlines() if ' 0A ' in line])"
    shown = slurm.kubectl("exec", "deployment/slurm-rest", "-c", "rest", "--", "python3", "-c", listening).ok()
    assert shown.count(" 0A ") == 1, f"the proxy's port and no other: {shown}"


def test_a_renewed_certificate_is_shown_without_an_outage(slurm, tls):
    def restarts() -> dict[str, list[int]]:
        pods = slurm.get("pods", "-l", "app.kubernetes.io/component=rest")["items"]
        return {
            pod["metadata"]["name"]: [each["restartCount"] for each in pod["status"]["containerStatuses"]]
            for pod in pods
        }

    before, restarts_before = from_operator(slurm, SERIAL).ok(), restarts()
    began = condition(slurm, "Available")
    tls.renew("slurm-rest")
    hurry(slurm, "rest")
    slurm.wait("the renewed certificate", lambda: from_operator(slurm, SERIAL).stdout.strip() not in ("", before), 180)
    assert condition(slurm, "Available") == began
    assert restarts() == restarts_before


def test_a_ca_that_did_not_sign_it_is_told_in_the_condition_and_the_right_one_ends_that(slurm, tls):
    right, wrong, _ = with_another_authority(tls, "slurm-rest-tls")
    try:
        tls.put(wrong)
        hurry(slurm, "operator")
        slurm.wait("RestUntrusted", lambda: condition(slurm, "Degraded")[1] == "RestUntrusted", 180)
        status, reason, message = condition(slurm, "Available")
        assert (status, reason) == ("Unknown", "RestUntrusted")
        assert "its certificate is not trusted" in message
        # Who trusts the wrong CA is not the cluster's users.
        assert slurm.sh("srun -n1 hostname").ok()
    finally:
        tls.put(right)
        hurry(slurm, "operator")
    slurm.wait("Available again", lambda: condition(slurm, "Available")[0] == "True", 180)


def test_the_database_speaks_tls_alone(slurm, tls, database):
    assert sql(slurm, "SHOW VARIABLES LIKE 'require_secure_transport'").split()[-1] == "ON"
    in_clear = "mariadb --no-defaults --skip-ssl --protocol=TCP --host=127.0.0.1 --user=slurm --execute='SELECT 1'"
    refused = slurm.on_pod("slurm-database-0", in_clear)
    assert "insecure transport are prohibited" in refused.stderr
    asked = "SELECT user FROM information_schema.processlist WHERE user = 'slurm'"
    slurm.wait("slurmdbd is connected, and there is no other way", lambda: sql(slurm, asked))
    assert int(sql(slurm, "SHOW GLOBAL STATUS LIKE 'Ssl_finished_accepts'").split()[-1]) > 0
    job = slurm.sh("sbatch --parsable --wrap true").ok()
    slurm.wait("sacct knows the job", lambda: recorded(slurm, job), 60)


def test_the_database_shows_a_renewed_certificate_without_a_restart(slurm, tls, database):
    ends = "SHOW GLOBAL STATUS LIKE 'Ssl_server_not_after'"
    before, uptime = sql(slurm, ends), int(sql(slurm, "SHOW GLOBAL STATUS LIKE 'Uptime'").split()[-1])
    tls.renew("slurm-database")
    hurry(slurm, "database")
    slurm.wait("another end of validity", lambda: sql(slurm, ends) != before, 180)
    assert int(sql(slurm, "SHOW GLOBAL STATUS LIKE 'Uptime'").split()[-1]) >= uptime


def test_slurmdbd_refuses_a_database_that_its_ca_did_not_sign(slurm, tls, database):
    right, wrong, authority = with_another_authority(tls, "slurm-database-tls")
    there = "cat /run/secrets/database-authority/ca.crt"
    try:
        tls.put(wrong)
        hurry(slurm, "accounting")
        slurm.wait("the wrong CA", lambda: slurm.on_pod("slurm-accounting-0", there).stdout == authority, 180)
        sql(slurm, "KILL USER slurm")
        slurm.wait(
            "slurmdbd's words in the condition",
            lambda: any(word in of_accounting(slurm).lower() for word in ("certificate", "ssl")),
            180,
        )
        assert slurm.sh("srun -n1 hostname").ok(), "jobs run without accounting"
    finally:
        tls.put(right)
        hurry(slurm, "accounting")
    slurm.wait("accounting is well again", lambda: not of_accounting(slurm), 180)
    slurm.wait("nothing is wrong", lambda: condition(slurm, "Degraded")[0] == "False", 180)


def test_no_key_stands_in_the_state_or_in_a_preview(slurm, tls):
    key = tls.secret("slurm-rest-tls")["data"]["tls.key"]
    shown = slurm.pulumi("stack", "export").ok() + json.dumps(slurm.get("slurmclusters"))
    assert key[60:120] not in shown
