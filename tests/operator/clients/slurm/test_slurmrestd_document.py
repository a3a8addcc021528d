"""The fake slurmrestd, and the recorded answers, are as the real one's document says."""

from __future__ import annotations

import copy
import json
import time
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import jwt
import pytest

from contract import names
from tests.operator.fakes.fake_slurmrestd import API, FakeSlurmrestd
from tests.operator.worlds.world import KEY

RECORDED = Path(__file__).parents[2] / "recorded"
DOCUMENT = json.loads((RECORDED / "openapi-v0.0.45.json").read_text())
ANSWERS = json.loads((RECORDED / "answers.json").read_text())
RESERVATION = {
    "name": f"{names.RESERVATION_PREFIX}cpu",
    "node_list": ["cpu-0", "cpu-1"],
    "users": [names.RESERVATION_USER],
    "flags": [*names.RESERVATION_FLAGS],
    "start_time": {"set": True, "infinite": False, "number": 2082758400},
    "end_time": {"set": True, "infinite": False, "number": 2082762000},
}
WEIGHT = {"set": True, "infinite": False, "number": 7}
STATE = ANSWERS["job-states"]["body"]["jobs"][0].keys()


def template(path: str) -> str:
    kind = path.split("/")[1]
    if kind == "job":
        return f"{API}/job/{{job_id}}"
    if kind == "reservation":
        return f"{API}/reservation/{{reservation_name}}" if path.count("/") > 1 else f"{API}{path}"
    return f"{API}/{kind}/{{{kind}_name}}" if kind in ("node", "partition") else f"{API}{path}"


def check(method: str, path: str, status: int, body: dict[str, Any]) -> None:
    """Hold an answer against the real slurmrestd's document; answers with errors leave the payload out in reality."""
    if path == "/jobs/state/":  # The document promises full records, which it does not give.
        assert all({*map(type, job.values())} == {str, list} and job.keys() == STATE for job in body["jobs"])
        return
    operation = DOCUMENT["paths"][template(path)][method.lower()]
    schema = copy.deepcopy(operation["response" if status == 200 else "default"])
    schema |= {"components": DOCUMENT["components"]}
    if body.get("errors") or body.get("warnings"):
        schema = {"$ref": "#/components/schemas/v0.0.45_openapi_resp", "components": DOCUMENT["components"]}
    jsonschema.validate(body, schema)


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_recorded_answers_fit_the_document(name: str) -> None:
    answer = ANSWERS[name]
    method, path = answer["request"]
    check(method, path, answer["status"], answer["body"])


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/nodes/", None),
        ("GET", "/reservations/", None),
        ("GET", "/job/777", None),
        ("GET", "/jobs/state/", None),
        ("GET", "/diag/", None),
        ("GET", "/partitions/", None),
        ("GET", "/node/cpu-0", None),
        ("GET", "/node/zz-0", None),
        ("POST", "/node/cpu-0", {"state": ["DRAIN"], "reason": "x"}),
        ("POST", "/node/cpu-0", {"state": ["UNDRAIN"]}),
        ("POST", "/node/cpu-0", {"features": ["cpu", "avx512"], "weight": WEIGHT, "topology_str": "fabric:rack1"}),
        ("POST", "/node/zz-0", {"state": ["UNDRAIN"]}),
        ("DELETE", "/node/cpu-1", None),
        ("DELETE", "/node/cpu-0", None),
        ("DELETE", "/node/zz-0", None),
        ("GET", "/reconfigure/", None),
        ("GET", "/conf", None),
        ("GET", "/partition/main", None),
        ("GET", "/partition/zz", None),
        ("POST", "/reservation", RESERVATION),
        ("POST", "/reservation", RESERVATION | {"name": "later"}),
        ("POST", "/reservation", RESERVATION | {"node_list": ["zz-0"]}),
        ("DELETE", "/reservation/later", None),
        ("DELETE", "/reservation/zz", None),
        ("POST", "/partitions/", {"partitions": [{"name": "main", "partition": {"state": ["DRAIN"]}}]}),
    ],
)
def test_the_fake_answers_as_the_document_says(
    fake: FakeSlurmrestd, method: str, path: str, body: dict[str, Any] | None
) -> None:
    fake.slurm.partitions = {"main": "UP"}
    fake.slurm.reservations.reserve("later", "cpu-[0-1]")
    if method == "DELETE" and path.endswith("0"):
        fake.slurm.run_job("cpu-0")
    now = int(time.time())
    token = jwt.encode({"iat": now, "exp": now + 60, "sun": "slurm"}, KEY, algorithm="HS256")
    if body is not None:
        request = DOCUMENT["paths"][template(path)][method.lower()]["request"]
        jsonschema.validate(body, request | {"components": DOCUMENT["components"]})
    answer = httpx.request(method, f"{fake.url}{API}{path}", json=body, headers={"X-SLURM-USER-TOKEN": token})
    check(method, path, answer.status_code, answer.json())


def test_the_fakes_states_are_slurms() -> None:
    states = DOCUMENT["components"]["schemas"]["v0.0.45_node"]["properties"]["state"]["items"]["enum"]
    assert {"IDLE", "MIXED", "DOWN", "DRAIN", "DYNAMIC_NORM", "RESERVED", "PLANNED", "COMPLETING"} <= set(states)
    job_states = DOCUMENT["components"]["schemas"]["v0.0.45_job_info"]["properties"]["job_state"]["items"]["enum"]
    assert {"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "PENDING", "COMPLETED", "NODE_FAIL"} <= set(job_states)
