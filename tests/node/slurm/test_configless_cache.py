from pathlib import Path

import pytest
from slurm_node.pod import paths
from slurm_node.slurm import configless_cache

GOOD = {"slurm.conf": "ClusterName=x\n", "plugstack.conf": f"required {paths.PLUGIN} jail=/run/jail\n"}


def test_a_right_configuration_is_taken() -> None:
    assert configless_cache.refusal(GOOD) is None
    assert configless_cache.refusal({**GOOD, "slurm.conf": "# no PlugStackConfig\n"}) is None
    more = f"\n{GOOD['plugstack.conf']}# others\noptional /no/such/plugin.so\nrequired /bin/sh a=b\n"
    assert configless_cache.refusal({**GOOD, "plugstack.conf": more}) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plugstack.conf", f"optional {paths.PLUGIN}\n"),
        ("plugstack.conf", f"optional /opt/slurm/lib/slurm-wlm/first.so\nrequired {paths.PLUGIN} jail=/run/jail\n"),
        ("plugstack.conf", f"include\nrequired {paths.PLUGIN} jail=/run/jail\n"),
        ("plugstack.conf", f"required {paths.PLUGIN} jail=run/jail\n"),
        ("plugstack.conf", f"required {paths.PLUGIN} jail=/run/jail deadline=soon\n"),
        ("plugstack.conf", f"required {paths.PLUGIN} jail=/run/jail\nrequired /no/such/plugin.so\n"),
        ("plugstack.conf", f"# required {paths.PLUGIN}\n"),
        ("plugstack.conf", "required spank_jail.so\n"),
        ("plugstack.conf", f"required {paths.PLUGIN.with_name('no_such_plugin.so')} jail=/run/jail\n"),
        ("slurm.conf", "PlugStackConfig=plugstack.conf\nClusterName=x\n"),
        ("slurm.conf", "plugstackCONFIG=/etc/x\n"),
        ("slurm.conf", "PlugStack\\\nConfig=x\n"),
        ("more.conf", "PlugStackConfig=x\n"),
    ],
)
def test_a_configuration_that_could_leave_the_jail_is_refused_by_file(name: str, text: str) -> None:
    assert name in (configless_cache.refusal({**GOOD, name: text}) or "")


def test_a_missing_plugstack_is_refused() -> None:
    assert configless_cache.refusal({"slurm.conf": "ClusterName=x\n"}) is not None


def test_a_slurmd_that_is_tried_again_is_judged_by_what_it_fetches_itself(tmp_path: Path) -> None:
    judge, file = configless_cache.Judge(tmp_path), tmp_path / "plugstack.conf"
    (tmp_path / "slurm.conf").write_text("ClusterName=x\n")
    file.write_text("optional x\n")
    assert judge.refusal(100) is not None
    assert judge.refusal(0.1) is None, "what is there is of the one before"
    assert judge.refusal(configless_cache.FETCH_SECONDS) is not None, "it fetches nothing else"
    file.unlink()
    file.write_text("optional x\n")
    assert judge.refusal(0.1) is not None, "it has fetched the same again"
    file.write_text(f"required {paths.PLUGIN} jail=/run/jail\n")
    assert judge.refusal(0.1) is None
