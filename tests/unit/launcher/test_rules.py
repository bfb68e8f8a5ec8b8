"""Who may run as whom (DESIGN sections 7 and 16): what root's file does not list is refused."""

import pytest

from common.errors import InvalidRequest
from common.wire import structure
from daemons.launcher.core.rules import LauncherRules, Person, may_run_as

ROOT = Person("root", 0, frozenset({"root"}))
GANTRY = Person("gantry", 900, frozenset({"gantry", "web"}))
ALICE = Person("alice", 1001, frozenset({"alice"}))
BOB = Person("bob", 1002, frozenset({"bob", "web"}))
CAROL = Person("carol", 1003, frozenset({"carol", "admins", "web"}))


def rules(**run_as: tuple[str, ...]) -> LauncherRules:
    return LauncherRules(run_as={name.replace("at_", "@"): targets for name, targets in run_as.items()})


def allowed(given: LauncherRules, submitter: Person) -> set[str]:
    return {each.login for each in (ROOT, GANTRY, ALICE, BOB, CAROL) if may_run_as(given, submitter, each)}


def test_nobody_may_anything_without_rules() -> None:
    assert [allowed(LauncherRules(), each) for each in (ROOT, ALICE, BOB)] == [set(), set(), set()]


def test_a_submitter_runs_as_himself_and_as_nobody_else() -> None:
    given = rules(alice=("self",), root=("self",))

    assert (allowed(given, ALICE), allowed(given, ROOT), allowed(given, BOB)) == ({"alice"}, {"root"}, set())


def test_members_of_a_group_run_as_themselves() -> None:
    given = rules(at_web=("self",))

    assert (allowed(given, BOB), allowed(given, CAROL), allowed(given, ALICE)) == ({"bob"}, {"carol"}, set())


def test_anybody_is_neither_root_nor_the_user_of_the_daemons() -> None:
    assert allowed(rules(carol=("*",)), CAROL) == {"alice", "bob", "carol"}


def test_root_and_the_user_of_the_daemons_can_be_named() -> None:
    assert allowed(rules(carol=("root", "gantry")), CAROL) == {"root", "gantry"}
    assert allowed(rules(root=("self", "*")), ROOT) == {"root", "alice", "bob", "carol"}


def test_a_group_of_targets_gives_no_rights_of_root_or_of_the_daemons() -> None:
    mighty = Person("root", 0, frozenset({"web"}))

    assert allowed(rules(alice=("@web",)), ALICE) == {"bob", "carol"}
    assert not may_run_as(rules(alice=("@web",)), ALICE, mighty)


def test_a_user_has_the_targets_of_all_lines_that_name_him() -> None:
    given = rules(at_web=("self",), at_admins=("alice",), carol=("bob",))

    assert allowed(given, CAROL) == {"alice", "bob", "carol"}


@pytest.mark.parametrize("login", ["@web", "self", "*", "@"])
def test_a_login_that_looks_like_another_word_is_not_taken_for_it(login: str) -> None:
    odd = Person(login, 1009)

    assert not may_run_as(rules(at_web=("self",)), odd, odd)
    assert not may_run_as(rules(bob=("@web",)), BOB, odd)


@pytest.mark.parametrize("wrong", [{"run_at": {}}, {"run_as": {"a": "self"}}, {"run_as": ["a"]}, {"callers": "gantry"}])
def test_a_file_with_unknown_keys_or_wrong_values_is_refused_as_a_whole(wrong: object) -> None:
    with pytest.raises(InvalidRequest):
        structure(wrong, LauncherRules)
