"""A fake of what serves `external.metrics.k8s.io/v1beta1`: prometheus-adapter, or KEDA's metrics server.

It shares with the real ones:

* the paths, and the shape of their answers (k8s.io/metrics, pkg/apis/external_metrics/v1beta1);
* TLS, and a client certificate that the API server's front proxy alone has;
* an empty list where a term has no series, as a sum of Prometheus has no value then.

It reads the operator's /metrics itself at each question: no Prometheus, no PromQL but sums of series, no labels to
select by. It leaves out the SubjectAccessReview of the user that the front proxy names. It needs Python alone, so that
it runs in any pod of the cluster.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import ssl
import urllib.request
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GROUP_VERSION = "external.metrics.k8s.io/v1beta1"
ROOT = f"/apis/{GROUP_VERSION}"
PORT = 6443


def terms(query: str) -> list[str]:
    """The series that a query sums up: `sum(a{b="c"}) + sum(d)` has `a{b="c"}` and `d`."""
    found = re.findall(r"sum\((\w+(?:\{[^}]*\})?)\)", query)
    rest = re.sub(r"sum\(\w+(?:\{[^}]*\})?\)", "", query)
    if not found or set(rest) - {" ", "+"}:
        raise ValueError(f"{query!r}: this fake knows sums of series alone")
    return found


def total(text: str, wanted: Iterable[str]) -> float | None:
    """The sum of all terms in a /metrics text; None if one of them has no series."""
    sums = [_sum(text, *_parsed(term)) for term in wanted]
    return None if None in sums else sum(each for each in sums if each is not None)


def _sum(text: str, name: str, labels: frozenset[str]) -> float | None:
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    values = [float(value) for series, _, value in lines if (own := _parsed(series))[0] == name and labels <= own[1]]
    return sum(values) if values else None


def _parsed(series: str) -> tuple[str, frozenset[str]]:
    return series.partition("{")[0], frozenset(re.findall(r'\w+="[^"]*"', series))


def resources(metric: str) -> dict[str, Any]:
    """Return the list of the API's resources, for discovery."""
    resource = {"name": metric, "singularName": "", "namespaced": True, "kind": "ExternalMetricValueList"}
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": GROUP_VERSION,
        "resources": [{**resource, "verbs": ["get"]}],
    }


def quantity(value: float) -> str:
    """A number as Kubernetes writes it, to thousandths."""
    thousandths = round(value * 1000)
    return f"{thousandths}m" if thousandths % 1000 else str(thousandths // 1000)


def values(metric: str, value: float | None, now: datetime.datetime) -> dict[str, Any]:
    """An ExternalMetricValueList of one value, or of none."""
    item = {
        "metricName": metric,
        "metricLabels": {},
        "timestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "value": quantity(value or 0),
    }
    return {
        "kind": "ExternalMetricValueList",
        "apiVersion": GROUP_VERSION,
        "metadata": {},
        "items": [] if value is None else [item],
    }


class Handler(BaseHTTPRequestHandler):
    """Answers discovery and one metric, in any namespace."""

    metric = ""
    query = ""
    source = ""
    allowed_name = ""
    timeout = 20

    def do_GET(self) -> None:
        """Answer with JSON, which clients accept beside protobuf."""
        path = self.path.partition("?")[0].rstrip("/")
        if not self._is_front_proxy():
            self._answer(401, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 401})
        elif path == ROOT:
            self._answer(200, resources(self.metric))
        elif re.fullmatch(rf"{ROOT}/namespaces/[^/]+/{self.metric}", path):
            with urllib.request.urlopen(self.source, timeout=5) as answer:
                value = total(answer.read().decode(), terms(self.query))
            self._answer(200, values(self.metric, value, datetime.datetime.now(datetime.UTC)))
        else:
            self._answer(404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404})

    def _is_front_proxy(self) -> bool:
        assert isinstance(self.connection, ssl.SSLSocket)
        subject = (self.connection.getpeercert() or {}).get("subject", ())
        return ("commonName", self.allowed_name) in [pair for part in subject for pair in part]

    def _answer(self, code: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serve what the environment says: METRIC, QUERY, SOURCE, ALLOWED_NAME; certificates lie in /tls."""
    for name in ("metric", "query", "source", "allowed_name"):
        setattr(Handler, name, os.environ[name.upper()])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile="/tls/front-proxy-ca.crt")
    context.load_cert_chain("/tls/tls.crt", "/tls/tls.key")
    context.verify_mode = ssl.CERT_REQUIRED
    server = ThreadingHTTPServer(("", PORT), Handler)
    # A handshake belongs to its own thread: a probe that says nothing would hold all others up.
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.serve_forever()


if __name__ == "__main__":
    main()
