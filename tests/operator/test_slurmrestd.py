"""Promises about talking to slurmrestd: what is doubtful is a typed error within the deadline, and fakes are true."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import datetime
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx
import jsonschema
import jwt
import pytest
from slurm_operator import drains
from slurm_operator.accounts import Entity, Found, Kind
from slurm_operator.clients.slurm import dry_run, hostlist, slurmrestd
from slurm_operator.clients.slurm.slurm_error import Trouble
from slurm_operator.decide.cluster.accounts import Change, Removal
from slurm_operator.decide.nodes import slurm_nodes as nodes
from slurm_operator.state.slurm import Facts, Reservation, Running, SlurmNode

from contract import names, reasons
from tests.operator.fake_slurm import Fault
from tests.operator.fake_slurmrestd import API, FakeSlurmrestd, raises, running
from tests.operator.world import KEY

RECORDED = Path(__file__).parent / "recorded"
DOCUMENT = json.loads((RECORDED / "openapi-v0.0.45.json").read_text())
ANSWERS = json.loads((RECORDED / "answers.json").read_text())
T = TypeVar("T")
AT, HOUR = datetime.datetime(2036, 1, 1, tzinfo=datetime.UTC), datetime.timedelta(hours=1)
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


@pytest.fixture
def fake() -> Iterator[FakeSlurmrestd]:
    with running(KEY) as served:
        served.slurm.register("cpu-0", features=("cpu",))
        served.slurm.register("cpu-1", features=("cpu",))
        yield served


def ask(fake: FakeSlurmrestd, key_file: Path, work: Callable[[slurmrestd.SlurmRest], Awaitable[T]]) -> T:
    async def run() -> T:
        rest = slurmrestd.SlurmRest(fake.url, key_file)
        try:
            return await work(rest)
        finally:
            await rest.close()

    return asyncio.run(run())


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


def test_what_slurmctld_runs_with_is_read(fake: FakeSlurmrestd, key_file: Path) -> None:
    fake.slurm.parameters, fake.slurm.started = ["enable_configless", "pulumi_slurm=12ab"], 1767225600
    fake.slurm.communication = ["block_null_hash", "EnableIPv6"]
    running = ask(fake, key_file, lambda rest: rest.running())
    since = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    words = frozenset({"block_null_hash", "enableipv6"})
    assert running == Running("enable_configless,pulumi_slurm=12ab", since, words)


def test_a_reservation_is_made_changed_and_deleted(fake: FakeSlurmrestd, key_file: Path) -> None:
    async def work(rest: slurmrestd.SlurmRest) -> list[tuple[Reservation, ...]]:
        await rest.reserve("r", ("cpu-0", "cpu-1"), AT, AT + HOUR)
        made = await rest.reservations()
        await rest.change_reservation("r", ("cpu-1",), AT + 3 * HOUR, AT + HOUR)
        changed = await rest.reservations()
        await rest.end_reservation("r")
        return [made, changed, await rest.reservations()]

    ours = (names.RESERVATION_USER, "", frozenset({*names.RESERVATION_FLAGS, "SPEC_NODES"}))
    both = frozenset({"cpu-0", "cpu-1"})
    assert ask(fake, key_file, work) == [
        (Reservation("r", both, AT, AT + HOUR, *ours),),
        (Reservation("r", frozenset({"cpu-1"}), AT + HOUR, AT + 3 * HOUR, *ours),),
        (),
    ]


def test_what_a_reboot_adds_to_a_reason_hides_nobodys_drain(fake: FakeSlurmrestd, key_file: Path) -> None:
    # _do_power_work (src/slurmctld/power_save.c, slurm-26-05-3-1) adds it in Slurm's name.
    fake.slurm.drain("cpu-0", f"{reasons.UPDATE} : reboot issued : reboot timed out", names.SLURM_USER)
    fake.slurm.drain("cpu-1", "bad fan : reboot issued", names.SLURM_USER)
    seen = ask(fake, key_file, lambda rest: rest.nodes(full=False))
    assert drains.owner(seen["cpu-0"]) is drains.Owner.UPDATE
    assert (drains.owner(seen["cpu-1"]), seen["cpu-1"].reason) == (drains.Owner.FOREIGN, "bad fan")


def test_a_partition_is_closed_and_an_unknown_one_has_no_state(fake: FakeSlurmrestd, key_file: Path) -> None:
    async def work(rest: slurmrestd.SlurmRest) -> tuple[str, str]:
        await rest.set_partition("main", "DRAIN")
        return await rest.partition_state("main"), await rest.partition_state("zz")

    fake.slurm.partitions = {"main": "UP"}
    assert ask(fake, key_file, work) == ("DRAIN", "")


def test_administrators_are_read_and_appointed(fake: FakeSlurmrestd, key_file: Path) -> None:
    async def work(rest: slurmrestd.SlurmRest) -> tuple[dict[str, str], dict[str, str]]:
        before = await rest.administrators()
        await rest.appoint({"boss": "Operator", "root": "None"})
        return before, await rest.administrators()

    assert ask(fake, key_file, work) == ({"root": "Administrator"}, {"boss": "Operator"})


def test_qos_and_accounts_are_read_and_changed(fake: FakeSlurmrestd, key_file: Path) -> None:
    high, root = Entity(Kind.QOS, "high"), Entity(Kind.ACCOUNT, "root")

    async def work(rest: slurmrestd.SlurmRest) -> tuple[Found, Found]:
        await rest.change_account("test", Change(high, {"Priority": "7"}, {}, makes=True))
        made = await rest.accounts("test")
        await rest.remove_account("test", Removal(high))
        return made, await rest.accounts("test")

    made, after = ask(fake, key_file, work)
    assert made.records[high]["Priority"] == "7"
    assert (root in made.records, high in after.records) == (True, False)
    assert ("DELETE", "/slurmdb/v0.0.45/qos/high") in fake.slurm.calls


def test_the_fakes_states_are_slurms() -> None:
    states = DOCUMENT["components"]["schemas"]["v0.0.45_node"]["properties"]["state"]["items"]["enum"]
    assert {"IDLE", "MIXED", "DOWN", "DRAIN", "DYNAMIC_NORM", "RESERVED", "PLANNED", "COMPLETING"} <= set(states)
    job_states = DOCUMENT["components"]["schemas"]["v0.0.45_job_info"]["properties"]["job_state"]["items"]["enum"]
    assert {"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "PENDING", "COMPLETED", "NODE_FAIL"} <= set(job_states)


def test_nodes_and_jobs_are_read(fake: FakeSlurmrestd, key_file: Path) -> None:
    number = fake.slurm.run_job("cpu-1")

    async def work(rest: slurmrestd.SlurmRest) -> tuple[Any, ...]:
        states = await rest.job_states()
        return await rest.nodes(full=False), states, await rest.job(states[0][0]), await rest.node("zz-0")

    nodes, states, jobs, missing = ask(fake, key_file, work)
    assert states == [(str(number), frozenset({"RUNNING"}))]
    since = nodes["cpu-0"].started
    assert since is not None
    states_of = frozenset({"IDLE", "DYNAMIC_NORM"})
    read = SlurmNode("cpu-0", states_of, started=since, features=frozenset({"cpu"}), weight=100, topology="")
    assert nodes["cpu-0"] == read
    assert nodes["cpu-1"].allocated_cpus == 1
    assert [(job.job_id, job.nodes, job.partitions) for job in jobs] == [
        (number, frozenset({"cpu-1"}), frozenset({"main"}))
    ]
    assert missing is None


def test_what_keeps_a_record_is_read_and_its_size(fake: FakeSlurmrestd, key_file: Path) -> None:
    fake.slurm.run_job("", state="PENDING", names="cpu-[0-1]")
    fake.slurm.jobs[1]["excluded_nodes"] = "cpu-7"
    for name, listed in {"later": "cpu-[2-3]", "now": "cpu-3", "of licenses": ""}.items():
        fake.slurm.reservations.reserve(name, listed)
    fake.slurm.nodes["cpu-0"].update(
        cpus=8,
        real_memory=2000,
        specialized_memory=64,
        gres="gpu:h100:8(S:0-1),shard:h100:1K(S:0),shard:l40s:8,bandwidth:4K",
    )
    fake.slurm.nodes["cpu-1"].update(cpus=8, real_memory=2000, gres="(null)")

    async def work(rest: slurmrestd.SlurmRest) -> tuple[Any, Any, Any]:
        return await rest.nodes(full=True), await rest.job("1"), await rest.reservations()

    nodes, (job,), reservations = ask(fake, key_file, work)
    assert job.names == {"cpu-0", "cpu-1", "cpu-7"}
    assert [each.nodes for each in reservations] == [{"cpu-2", "cpu-3"}, {"cpu-3"}, set()]
    facts = [nodes[name].facts for name in ("cpu-0", "cpu-1")]
    sizes = [dataclasses.replace(each, options=()) for each in facts if each]
    assert sizes == [Facts(8, 2000, "bandwidth:4096,gpu:h100:8,shard:1032"), Facts(8, 2000)]
    assert [dict(each.options)["MemSpecLimit"] for each in facts if each] == [64, 0]


def test_features_weight_and_place_of_a_node_change_alone(fake: FakeSlurmrestd, key_file: Path) -> None:
    changes: list[dict[str, Any]] = [
        {"features": ("cpu", "avx512")},
        {"weight": 7},
        {"topology": "fabric:rack1"},
        {"topology": ""},
    ]

    async def work(rest: slurmrestd.SlurmRest) -> list[SlurmNode | None]:
        seen = []
        for change in changes:
            await rest.update_node("cpu-0", **change)
            seen.append(await rest.node("cpu-0"))
        return seen

    seen = [(each.features, each.weight, each.topology) for each in ask(fake, key_file, work) if each]
    both = frozenset({"cpu", "avx512"})
    assert seen == [(both, 100, ""), (both, 7, ""), (both, 7, "fabric:rack1"), (both, 7, "")]


def test_an_unchanged_listing_is_not_sent_again_and_a_change_in_the_same_second_is_seen(
    fake: FakeSlurmrestd, key_file: Path
) -> None:
    async def work(rest: slurmrestd.SlurmRest) -> None:
        # It lies ahead, so that it is not over when the answer is read, however slow this machine is.
        fake.slurm.last_update = second = int(time.time()) + 60
        fresh = await rest.nodes(full=False)
        fake.slurm.drain("cpu-0", "bad disk", "root")
        fake.slurm.last_update = second
        assert (await rest.nodes(full=False))["cpu-0"].states != fresh["cpu-0"].states
        fake.slurm.last_update = int(time.time()) - 10
        await rest.nodes(full=True)
        before = fake.slurm.not_modified
        assert "DRAIN" in (await rest.nodes(full=False))["cpu-0"].states
        assert fake.slurm.not_modified == before + 1
        await rest.nodes(full=True)
        assert fake.slurm.not_modified == before + 1, "a full listing never asks for changes only"

    ask(fake, key_file, work)


def test_two_listings_share_the_records_that_say_the_same(fake: FakeSlurmrestd, key_file: Path) -> None:
    """Of thousands of nodes each pass would hold two or three records else."""

    async def work(rest: slurmrestd.SlurmRest) -> tuple[Mapping[str, SlurmNode], Mapping[str, SlurmNode]]:
        before = await rest.nodes(full=True)
        fake.slurm.drain("cpu-0", "bad-fan", "alice")
        return before, await rest.nodes(full=True)

    before, after = ask(fake, key_file, work)
    assert before["cpu-1"] is after["cpu-1"]
    assert before["cpu-0"].reason == ""
    assert after["cpu-0"].reason == "bad-fan"
    assert before["cpu-0"].states is before["cpu-1"].states, "few combinations of states are shared by many nodes"


def test_a_drain_of_ours_stays_ours_when_its_node_falls_silent(fake: FakeSlurmrestd, key_file: Path) -> None:
    # slurmctld's set_node_reason (src/slurmctld/node_mgr.c, slurm-26-05-3-1) adds it after SlurmdTimeout.
    fake.slurm.drain("cpu-0", f"{reasons.UPDATE} : Not responding", names.SLURM_USER)
    node = ask(fake, key_file, lambda rest: rest.nodes(full=False))["cpu-0"]
    assert drains.owner(node) is drains.Owner.UPDATE


FAULTS: list[tuple[Fault, Trouble]] = [
    ("garbage", Trouble.UNUSABLE),
    ("half", Trouble.UNUSABLE),
    ("no list", Trouble.UNUSABLE),
    ("errors in 200", Trouble.REFUSED),
    ("slurmctld away", Trouble.CONTROLLER_AWAY),
    ("cut off", Trouble.CONTROLLER_AWAY),
    ("unauthorized", Trouble.FORBIDDEN),
]


@pytest.mark.parametrize(("fault", "expected"), FAULTS)
def test_each_fault_is_its_own_error(fake: FakeSlurmrestd, key_file: Path, fault: Fault, expected: Trouble) -> None:
    fake.slurm.fail(fault)
    with raises(expected):
        ask(fake, key_file, lambda rest: rest.nodes(full=False))
    with raises(expected):
        ask(fake, key_file, lambda rest: rest.job_states())


@pytest.mark.parametrize("fault", ["hang", "drip"])
def test_a_server_that_never_ends_its_answer_meets_the_deadline(
    fake: FakeSlurmrestd, key_file: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    async def asked(rest: slurmrestd.SlurmRest) -> None:
        async with asyncio.timeout(30):  # The answer itself never ends.
            await rest.nodes(full=False)

    monkeypatch.setattr(slurmrestd, "DEADLINE_SECONDS", 0.5)
    fake.slurm.fail(fault)
    with raises(Trouble.UNREACHABLE, match="no answer in time"):
        ask(fake, key_file, asked)
    fake.slurm.fail("")


def test_only_slurms_own_word_for_an_unknown_node_is_taken_for_none(fake: FakeSlurmrestd, key_file: Path) -> None:
    assert ask(fake, key_file, lambda rest: rest.node("zz-0")) is None
    fake.slurm.fail("errors in 200")
    with raises(Trouble.REFUSED):
        ask(fake, key_file, lambda rest: rest.node("zz-0"))


def test_a_job_that_slurmctld_has_forgotten_is_none(fake: FakeSlurmrestd, key_file: Path) -> None:
    assert ask(fake, key_file, lambda rest: rest.job("777")) == ()
    fake.slurm.fail("errors in 200")
    with raises(Trouble.REFUSED):
        ask(fake, key_file, lambda rest: rest.job("777"))


def test_a_job_whose_nodes_cannot_be_read_is_on_every_node(fake: FakeSlurmrestd, key_file: Path) -> None:
    fake.slurm.jobs[fake.slurm.run_job("cpu-1", state="SUSPENDED")]["nodes"] = "cpu-[0-"
    jobs = ask(fake, key_file, lambda rest: rest.job("1"))
    everywhere = nodes.busy_nodes(jobs)
    assert "gpu-7" in everywhere
    assert everywhere & {"cpu-0": 1}.keys() == {"cpu-0"}
    seen = ask(fake, key_file, lambda rest: rest.nodes(full=True))
    assert [node.busy for node in nodes.with_jobs(seen, jobs).values()] == [True, True]


def test_a_suspended_job_shows_in_the_memory_of_its_node(fake: FakeSlurmrestd, key_file: Path) -> None:
    fake.slurm.memory = True
    fake.slurm.run_job("cpu-1", state="SUSPENDED")
    seen = ask(fake, key_file, lambda rest: rest.nodes(full=True))
    assert [nodes.has_work(node) for node in seen.values()] == [False, True]
    assert ask(fake, key_file, lambda rest: rest.running()).counts_memory


def test_a_refused_connection_is_unreachable(fake: FakeSlurmrestd, key_file: Path) -> None:
    fake.refuse()
    with raises(Trouble.UNREACHABLE):
        ask(fake, key_file, lambda rest: rest.nodes(full=False))


@pytest.mark.parametrize("url", ["http://slurm-rest:abc", "http://127.0.0.1:99999", "http://[::", "slurm-rest", ""])
def test_where_no_server_can_be_is_unreachable(url: str, key_file: Path) -> None:
    async def work() -> None:
        rest = slurmrestd.SlurmRest(url, key_file)
        with raises(Trouble.UNREACHABLE):
            await rest.nodes(full=False)
        with pytest.raises(dry_run.DryRunError):
            await dry_run.ask(url, {})
        await rest.close()

    asyncio.run(work())


@pytest.mark.parametrize("seconds", [10**20, -(10**12), 2**63])
def test_a_time_that_is_none_is_no_crash(fake: FakeSlurmrestd, key_file: Path, seconds: int) -> None:
    fake.slurm.started = seconds
    fake.slurm.nodes["cpu-0"]["slurmd_start_time"] = {"set": True, "infinite": False, "number": seconds}
    with raises(Trouble.UNUSABLE):
        ask(fake, key_file, lambda rest: rest.running())
    with raises(Trouble.UNUSABLE):
        ask(fake, key_file, lambda rest: rest.nodes(full=False))


def test_a_missing_key_is_no_crash(fake: FakeSlurmrestd, tmp_path: Path) -> None:
    with raises(Trouble.FORBIDDEN, match="key"):
        ask(fake, tmp_path / "none", lambda rest: rest.nodes(full=False))


def test_a_renewed_key_is_taken_at_once(fake: FakeSlurmrestd, key_file: Path) -> None:
    async def work(rest: slurmrestd.SlurmRest) -> None:
        await rest.nodes(full=True)
        fake.slurm.key = b"n" * 32
        key_file.write_bytes(b"n" * 32)
        await rest.nodes(full=True)

    ask(fake, key_file, work)


def test_tokens_live_at_most_five_minutes_and_are_slurms(fake: FakeSlurmrestd, key_file: Path) -> None:
    async def work(rest: slurmrestd.SlurmRest) -> str:
        return rest._user_token()

    claims = jwt.decode(ask(fake, key_file, work), KEY, algorithms=["HS256"])
    assert claims["sun"] == "slurm"
    assert claims["exp"] - claims["iat"] <= 300


def test_a_refusal_carries_slurms_words(fake: FakeSlurmrestd, key_file: Path) -> None:
    fake.slurm.run_job("cpu-0")
    with raises(Trouble.REFUSED, match="Requested nodes are busy"):
        ask(fake, key_file, lambda rest: rest.delete_node("cpu-0"))


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("", []),
        ("cpu-0", ["cpu-0"]),
        ("cpu-[0-2,7],gpu-1", ["cpu-0", "cpu-1", "cpu-2", "cpu-7", "gpu-1"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
    ],
)
def test_node_lists_are_expanded(expression: str, names: list[str]) -> None:
    assert sorted(hostlist.expand(expression)) == names


@pytest.mark.parametrize("expression", ["cpu-[0-", "cpu-]3[", "a[b-c]", ",a", "a,", "n[3-1]", "n[0-999999999]"])
def test_a_node_list_that_is_none_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=r"node"):
        hostlist.expand(expression)
