import pytest
from slurm_node.accounts import accounts
from slurm_node.pod.log import NodeError
from slurm_node.pod.settings import User

from tests.node.accounts.account_samples import ALICE, IMAGE


def test_an_initial_user_has_an_ordinary_id_a_group_of_his_own_and_no_password() -> None:
    after = accounts.with_user(IMAGE, ALICE, "/bin/bash")
    assert after.lines["passwd"][-1] == "alice:x:1000:1000::/home/alice:/bin/bash"
    assert "alice:x:1000:" in after.lines["group"]
    assert after.lines["shadow"][-1] == "alice:*:1::::::"
    assert "sudo:x:27:alice" in after.lines["group"]


def test_a_user_whose_group_is_there_already_gets_its_id() -> None:
    cut_short = IMAGE.with_lines({"group": ["zoe:x:1000:", "alice:x:1001:"]})
    after = accounts.with_user(cut_short, ALICE, "/bin/bash")
    assert after.lines["passwd"][-1] == "alice:x:1001:1001::/home/alice:/bin/bash"
    taken = cut_short.with_lines({"passwd": ["bob:x:1001:1001::/home/bob:/bin/sh"]})
    assert accounts.with_user(taken, ALICE, "/bin/bash").ids("passwd")["alice"] == 1002


def test_a_user_who_is_there_is_left_as_he_is() -> None:
    once = accounts.with_user(IMAGE, ALICE, "/bin/bash")
    assert accounts.with_user(once, User("alice", (), sudo=False), "/bin/sh") == once


def test_users_get_ids_and_subordinate_ids_of_their_own() -> None:
    after = accounts.with_user(accounts.with_user(IMAGE, ALICE, "/bin/sh"), User("bob"), "/bin/sh")
    assert after.ids("passwd")["bob"] == 1001
    assert after.lines["subuid"] == ("alice:100000:65536", "bob:165536:65536")


@pytest.mark.parametrize("name", ["Root", "a b", "x:0", "", "0day", "../x"])
def test_a_name_that_no_system_takes_is_refused(name: str) -> None:
    with pytest.raises(NodeError, match="login user"):
        accounts.with_user(IMAGE, User(name), "/bin/sh")


def test_slurms_user_is_added_once() -> None:
    once = accounts.with_slurm(IMAGE)
    assert once.ids("passwd")["slurm"] == once.ids("group")["slurm"] == 64030
    assert accounts.with_slurm(once) == once


def test_another_slurm_id_in_the_image_is_an_error() -> None:
    other = IMAGE.with_lines({"passwd": ["slurm:x:200:200::/:/bin/false"]})
    with pytest.raises(NodeError, match="64030"):
        accounts.with_slurm(other)
