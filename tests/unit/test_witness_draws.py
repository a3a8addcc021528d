"""The witness's draws: a seed says all, and each option and command is tried."""

from __future__ import annotations

from tests.vm.v2_cluster import FAKE_GPUS
from tests.witness import commands, options, runs, values
from tests.witness.runs import Who
from tests.witness.values import LIMIT, LIMITS, LISTS, PROGRAM
from tests.witness.walk import STARTS_UP, part

JOB_TABLE = runs.JOB_TABLE
READ = {
    "srun": {"SLURM_STDINMODE", "SRUN_INPUT", "SLURM_SRUN_MULTI"},
    "sbatch": {"SBATCH_INPUT"},
    "salloc": {"SALLOC_CONTAINER"},
}


def plan(values_each: int | None = 1, pairs: int = 10) -> runs.Plan:
    return runs.Plan(
        options={program: frozenset(JOB_TABLE) for program in READ},
        read={program: frozenset(names) for program, names in READ.items()},
        people=(Who.STEP_ROOT, Who.ROOT, Who.OTHER, Who.ADMINISTRATOR),
        values_each=values_each,
        pairs=pairs,
    )


def test_a_seed_says_what_is_tried() -> None:
    assert runs.draw(1, plan()) == runs.draw(1, plan())
    assert runs.draw(1, plan()) != runs.draw(2, plan())
    whole = runs.draw(1, plan(None))
    assert len({run.label for run in whole}) == len(whole)


def test_every_option_that_is_not_harmless_is_tried_with_each_program_and_in_full_by_everybody() -> None:
    wanted = {name for name, (kind, _) in JOB_TABLE.items() if kind is not options.Kind.HARMLESS}
    every = {f"{program} --{name}" for program in READ for name in wanted}
    assert every <= {run.option for run in runs.draw(3, plan(pairs=0))}
    whole = runs.draw(3, plan(None, 0))
    for who in Who:
        assert every <= {run.option for run in whole if run.who is who}, who
    for who in (Who.USER, Who.ROOT):
        for place in (True, False):
            tried = {run.option for run in whole if run.who is who and run.from_login is place}
            assert every <= tried, (who, place)


def test_every_command_that_is_not_about_its_own_job_is_tried_on_a_login_node() -> None:
    free = {command.name for command in commands.COMMANDS if not command.needs_job}
    assert {"sattach-plain", "sbcast-jobid", "strigger-program", "scrontab", "scontrol-token", "scancel-user"} <= free
    begun = [run for run in runs.draw(3, plan(None, 0)) if run.from_login]
    for who in (Who.USER, Who.ROOT):
        assert free <= {run.option for run in begun if run.who is who}
    assert not [run.line for run in begun if "$SLURM" in run.line]


def test_draws_begin_lines_of_each_program_on_a_login_node_now_and_then() -> None:
    lines = [run for seed in range(12) for run in runs.draw(seed, plan())]
    begun = [run for run in lines if run.from_login]
    programs = {run.option.partition(" ")[0].partition("-")[0] for run in begun}
    assert {"srun", "sbatch", "salloc", "sattach", "strigger", "scrontab", "scontrol", "sacctmgr"} <= programs
    assert len(begun) < 0.3 * len(lines)


def test_the_parts_of_a_draw_are_the_whole_of_it_once() -> None:
    whole = runs.draw(1, plan())
    parts = [part(whole, f"{number}/3") for number in (1, 2, 3)]
    assert sorted(run.label for each in parts for run in each) == sorted(run.label for run in whole)
    assert part(whole, "1/1") == whole


def test_each_draw_has_slurmstepd_asked_to_write_each_limit_that_is_the_users() -> None:
    drawn = [run for run in runs.draw(4, plan(pairs=0)) if f"echo {LIMIT}" in run.line]
    assert {run.who for run in drawn} == {Who.USER}
    for option in ("output", "error"):
        lines = " ".join(run.line for run in drawn if run.option == f"sbatch --{option}")
        assert [limit for limit in LIMITS if limit in lines] == [*LIMITS]


def test_each_draw_has_a_gpu_opened_that_no_job_was_given() -> None:
    drawn = {run.option for run in runs.draw(4, plan(pairs=0)) if values.GPU in run.line}
    assert {"srun --input", "sbatch --input"} <= drawn
    assert values.GPU.removesuffix("0") in FAKE_GPUS


def test_each_draw_has_start_up_files_read() -> None:
    assert [run.who for run in runs.draw(4, plan(pairs=0)) if run.option == STARTS_UP and run.works] == [Who.USER]


def test_an_option_is_also_given_by_its_letter_and_by_a_variable() -> None:
    lines = [run.line for run in runs.draw(3, plan(None, 0)) if run.option == "srun --input"]
    assert any(" -i/proc" in line for line in lines)
    assert any(line.startswith("env S") and "--input" not in line for line in lines)


def test_a_list_of_programs_stands_in_the_place_of_the_program() -> None:
    lines = [run.line for run in runs.draw(3, plan(None, 0)) if run.option == "srun --multi-prog"]
    assert {f"{LISTS}/programs", *values.READ[:4]} <= {line.split()[-1] for line in lines}
    assert not [line for line in lines if PROGRAM in line or "--multi-prog=" in line]
    assert any("SLURM_SRUN_MULTI=1 " in line for line in lines)


def test_every_command_that_is_not_harmless_is_tried() -> None:
    tried = " ".join(command.name for command in commands.COMMANDS)
    for program, table in options.COMMANDS.items():
        for name, (kind, _) in table.items():
            assert kind is options.Kind.HARMLESS or f"{program}-{name}" in tried, (program, name)
    for programs, table in options.OPTIONS.items():
        for name, (kind, _) in table.items():
            (program, *shared) = programs
            assert shared or kind is options.Kind.HARMLESS or f"{program}-{name.strip('-')}" in tried, (program, name)


def test_what_slurm_does_for_nobody_of_the_jail_is_tried_by_everybody() -> None:
    whole = runs.draw(3, plan(None, 0))
    for option in ("sacctmgr-archive", "strigger-program", "scontrol-token"):
        tried = {run.who for run in whole if run.option == option and run.is_nobodys}
        assert tried == {Who.USER, Who.ROOT, Who.OTHER, Who.ADMINISTRATOR}, option
    assert all(run.is_nobodys for run in whole if run.option in {"sacctmgr-archive", "strigger-program"})
