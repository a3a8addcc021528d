"""People are the same in all roots, whatever root a change was made in."""

import pytest
from slurm_node.accounts import accounts, users
from slurm_node.accounts.users import Root, merged, users_of, with_users
from slurm_node.pod.settings import User

from tests.node.accounts.account_samples import ALICE, IMAGE

NONE = users_of(IMAGE)
ONE = accounts.with_user(IMAGE, ALICE, "/bin/bash")
BOTH = accounts.with_user(ONE, User("bob"), "/bin/bash")


def test_system_accounts_are_nobodys() -> None:
    assert NONE == {}
    assert {name for file, name in users_of(ONE) if file == "passwd"} == {"alice"}
    assert ("member", "sudo:alice") in users_of(ONE)


def test_a_further_line_with_an_ordinary_id_makes_no_system_account_a_users() -> None:
    """All roots would otherwise lose their own line of that name once the further one goes."""
    twice = accounts.Accounts({**ONE.lines, "passwd": (*ONE.lines["passwd"], "root:x:5000:5000::/:/bin/sh")})
    assert users_of(twice) == users_of(ONE)
    assert with_users(twice, users_of(ONE)) == twice


def test_what_is_read_and_written_back_is_the_same() -> None:
    team = BOTH.with_lines({"group": ["team:x:2000:alice,bob"], "subuid": ["alice:900000:10"]})
    assert with_users(team, users_of(team)) == team


def test_a_new_root_gets_the_people_and_keeps_its_own_system_accounts() -> None:
    old = ONE.with_lines({"passwd": ["old-daemon:x:105:105::/:/bin/false"]}).with_member("video", "alice")
    new = IMAGE.with_lines({"passwd": ["new-daemon:x:105:105::/:/bin/false"]})
    agreed = merged({}, [Root(users_of(old), None), Root(users_of(new), None)])
    after = with_users(new, agreed)
    assert after.names("passwd") == {"root", "daemon", "new-daemon", "alice"}
    assert "video:x:44:alice" in after.lines["group"]
    assert "sudo:x:27:alice" in after.lines["group"]
    assert with_users(old, agreed) == old


def agree(first: users.Users, second: users.Users, before: users.Users) -> users.Users:
    return merged(before, [Root(first, before), Root(second, before)])


def test_who_is_added_or_changed_or_removed_in_one_root_is_so_in_all() -> None:
    one, both = users_of(ONE), users_of(BOTH)
    assert agree(both, one, one) == both
    assert agree(one, both, one) == both
    assert agree(one, both, both) == one, "deluser"
    passwd = dict(one) | {("shadow", "alice"): "alice:$6$x:1::::::"}
    assert agree(passwd, both, one) == {**both, **passwd}, "a password here, a user there"


def test_two_members_added_to_one_group_in_two_roots_are_both_in_it() -> None:
    team = BOTH.with_lines({"group": ["team:x:2000:"]})
    after = agree(
        users_of(team.with_member("team", "alice")), users_of(team.with_member("team", "bob")), users_of(team)
    )
    assert "team:x:2000:alice,bob" in with_users(team, after).lines["group"]


def test_a_group_that_a_root_lacks_is_no_departure_from_it() -> None:
    video = ONE.with_member("video", "alice")
    without = accounts.Accounts({**ONE.lines, "group": tuple(x for x in ONE.lines["group"] if "video" not in x)})
    agreed = users_of(video)
    there = users_of(with_users(without, agreed))
    assert ("member", "video:alice") not in there
    assert merged(agreed, [Root(agreed, agreed), Root(there, there)]) == agreed


def test_an_ordinary_user_of_an_image_does_not_take_somebodys_id() -> None:
    ubuntu = IMAGE.with_lines({"passwd": ["ubuntu:x:1000:1000::/home/ubuntu:/bin/bash"], "group": ["ubuntu:x:1000:"]})
    after = merged(users_of(ONE), [Root(users_of(ubuntu), None)])
    assert after == users_of(ONE)
    assert with_users(ubuntu, after).names("passwd") == {"root", "daemon", "alice"}


def test_a_system_account_of_the_image_is_not_overwritten() -> None:
    postgres = IMAGE.with_lines({"passwd": ["alice:x:105:105::/:/bin/false"]})
    assert "alice:x:105:105::/:/bin/false" in with_users(postgres, users_of(ONE)).lines["passwd"]


@pytest.mark.parametrize("order", [1, -1])
def test_two_users_made_at_once_with_one_id_are_told(order: int) -> None:
    carol = accounts.with_user(ONE, User("carol"), "/bin/sh")
    first, second = [users_of(BOTH), users_of(carol)][::order]
    after = agree(first, second, users_of(ONE))
    assert users.clashes(after) == ["the users bob, carol share the id 1001"]
