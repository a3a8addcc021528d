import pytest
from slurm_node import fetched, paths

GOOD = {"slurm.conf": "ClusterName=x\n", "plugstack.conf": f"required {paths.PLUGIN} jail=/run/jail\n"}


def test_a_right_configuration_is_taken() -> None:
    assert fetched.refusal(GOOD) is None
    assert fetched.refusal({**GOOD, "slurm.conf": "# no PlugStackConfig\n"}) is None
    more = f"\n{GOOD['plugstack.conf']}# others\noptional /no/such/plugin.so\nrequired /bin/sh a=b\n"
    assert fetched.refusal({**GOOD, "plugstack.conf": more}) is None


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
        ("slurm.conf", "PlugStackConfig=plugstack.conf\n"),
        ("slurm.conf", "plugstackCONFIG=/etc/x\n"),
        ("slurm.conf", "PlugStack\\\nConfig=x\n"),
        ("more.conf", "PlugStackConfig=x\n"),
    ],
)
def test_a_configuration_that_could_leave_the_jail_is_refused_by_file(name: str, text: str) -> None:
    assert name in (fetched.refusal({**GOOD, name: text}) or "")


def test_a_missing_plugstack_is_refused() -> None:
    assert fetched.refusal({"slurm.conf": "ClusterName=x\n"}) is not None
