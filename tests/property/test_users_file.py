"""Edits of the users file touch the lines of one user, and no other byte (rapi.md section 2)."""

import attrs
from hypothesis import given
from hypothesis import strategies as st

from common.webaccess.users import User, read_users, with_changed_user, with_new_user, without_user

NAMES = st.sampled_from(["jack", "jill", "ci", "a.b@c"])
WORDS = st.text(st.characters(blacklist_categories=["Z", "C"], blacklist_characters=","), min_size=1, max_size=8)
USERS = st.builds(User, NAMES, WORDS, st.lists(WORDS, max_size=3).map(tuple))
ENDINGS = st.sampled_from(["\n", "\r\n"])
FOREIGN = st.one_of(
    st.just(""), WORDS.map("# {}".format), WORDS.map("#jack {}".format), st.sampled_from(["jack", " ", "\t#x y"])
)
SPACED = st.builds(
    lambda blank, user: blank + user.line.replace(" ", f" {blank}"), st.sampled_from(["", " ", "\t"]), USERS
)
TEXTS = st.lists(st.builds(str.__add__, st.one_of(FOREIGN, SPACED), ENDINGS), max_size=8).map("".join)


def without_lines_of(text: str, name: str) -> list[str]:
    return [
        line for line in text.splitlines(keepends=True) if line.split(None, 1)[:1] != [name] or not line.split()[1:]
    ]


@given(USERS)
def test_a_line_is_read_as_it_was_written(user: User) -> None:
    assert read_users(user.line).by_name == {user.name: user}


@given(TEXTS, USERS.map(lambda user: attrs.evolve(user, name="newcomer")))
def test_a_new_user_is_added_to_the_others(text: str, user: User) -> None:
    before = read_users(text).by_name

    after = with_new_user(text, user)

    assert after.startswith(text)
    assert read_users(after).by_name == {**before, user.name: user}


@given(TEXTS, USERS, TEXTS, WORDS)
def test_a_changed_user_is_the_only_change(first: str, old: User, second: str, password: str) -> None:
    text = f"{first}{old.line}\n{second}"
    user = attrs.evolve(old, password=password)
    before = read_users(text).by_name

    after = with_changed_user(text, user)

    assert read_users(after).by_name == {**before, user.name: user}
    assert without_lines_of(after, user.name) == without_lines_of(text, user.name)
    assert len(after.splitlines()) == len(text.splitlines())


@given(TEXTS, USERS, TEXTS)
def test_a_removed_user_is_gone_and_nothing_else(first: str, user: User, second: str) -> None:
    text, name = f"{first}{user.line}\n{second}", user.name
    before = read_users(text).by_name

    after = without_user(text, name)

    assert read_users(after).by_name == {each: user for each, user in before.items() if each != name}
    assert after == "".join(without_lines_of(text, name))
