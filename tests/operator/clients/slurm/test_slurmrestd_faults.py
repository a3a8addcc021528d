"""Promises about a slurmrestd that fails: what is doubtful is a typed error within the deadline."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import jwt
import pytest
from slurm_operator.clients.slurm import dry_run, slurmrestd, slurmrestd_connection, slurmrestd_records
from slurm_operator.clients.slurm.slurm_error import Trouble

from tests.operator.clients.slurm.rest_calls import ask
from tests.operator.fakes.fake_slurm import Fault
from tests.operator.fakes.fake_slurmrestd import FakeSlurmrestd, raises
from tests.operator.worlds.world import KEY

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


def test_in_a_pass_only_the_first_call_waits_long_for_a_slurmctld_that_is_silent(
    fake: FakeSlurmrestd, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The status is told after the pass: three calls that wait ten seconds each told it half a minute late."""
    monkeypatch.setattr(slurmrestd, "DEADLINE_SECONDS", 0.5)
    monkeypatch.setattr(slurmrestd_connection, "SILENT_SECONDS", 0.1)
    waits: list[float] = []

    async def passes(rest: slurmrestd.SlurmRest) -> None:
        for calls in (3, 1):
            rest.begin_pass()
            for _ in range(calls):
                began = time.monotonic()
                with raises(Trouble.UNREACHABLE):
                    await rest.nodes(full=False)
                waits.append(time.monotonic() - began)
        fake.slurm.fail("")
        await rest.nodes(full=False)

    fake.slurm.fail("hang")
    ask(fake, key_file, passes)
    assert [wait > 2 * 0.5 for wait in waits] == [True, False, False, True]


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


def starts(fake: FakeSlurmrestd, seconds: int) -> None:
    fake.slurm.started = seconds
    fake.slurm.nodes["cpu-0"]["slurmd_start_time"] = {"set": True, "infinite": False, "number": seconds}


def test_a_time_that_is_none_is_no_crash(fake: FakeSlurmrestd, key_file: Path) -> None:
    starts(fake, -(10**12))
    with raises(Trouble.UNUSABLE):
        ask(fake, key_file, lambda rest: rest.running())
    with raises(Trouble.UNUSABLE):
        ask(fake, key_file, lambda rest: rest.nodes(full=False))


@pytest.mark.parametrize("seconds", [10**20, 2**63])
def test_a_time_beyond_the_calendar_is_its_last(fake: FakeSlurmrestd, key_file: Path, seconds: int) -> None:
    starts(fake, seconds)
    assert ask(fake, key_file, lambda rest: rest.running()).started == slurmrestd_records.LAST
    assert ask(fake, key_file, lambda rest: rest.nodes(full=False))["cpu-0"].started == slurmrestd_records.LAST


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
