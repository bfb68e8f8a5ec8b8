"""The text of the users file. Source: rapi.md section 2."""

import pytest

from common.errors import Conflict, InvalidRequest, NotFound
from common.webaccess.users import User, read_users, with_changed_user, with_new_user, without_user

FILE = """\
# who may call

jack abc123
  jill   {HA1}54c1   write, read ,,odd
lonely
\t# not me secret
jack {cleartext}later read
"""


def test_lines_have_name_password_and_options() -> None:
    assert read_users(FILE).by_name["jill"] == User("jill", "{HA1}54c1", ("write", "read", "odd"))


def test_the_later_line_of_a_name_wins() -> None:
    assert read_users(FILE).by_name["jack"] == User("jack", "{cleartext}later", ("read",))


def test_a_line_with_one_word_is_skipped_and_told() -> None:
    assert read_users(FILE).short_lines == (5,)


def test_comments_and_empty_lines_name_nobody() -> None:
    assert set(read_users(FILE).by_name) == {"jack", "jill"}


def test_a_new_user_comes_last_and_the_rest_stays() -> None:
    assert with_new_user(FILE, User("ci", "x", ("submit", "unix=ci"))) == f"{FILE}ci x submit,unix=ci\n"
    assert with_new_user("jack x", User("ci", "x")) == "jack x\nci x\n"
    assert with_new_user("", User("ci", "x")) == "ci x\n"


def test_of_several_lines_the_one_that_counts_is_changed() -> None:
    changed = with_changed_user(FILE, User("jack", "new", ("odd",)))

    assert changed == FILE.replace("jack {cleartext}later read", "jack new odd")


def test_a_removed_user_has_no_line_left() -> None:
    removed = without_user(FILE, "jack")

    assert removed == FILE.replace("jack abc123\n", "").replace("jack {cleartext}later read\n", "")


def test_a_line_without_an_end_stays_without_it() -> None:
    assert with_changed_user("a x\nb y", User("b", "z")) == "a x\nb z"
    assert with_changed_user("a x\r\nb y\r\n", User("a", "z")) == "a z\r\nb y\r\n"


def test_there_is_one_user_of_a_name() -> None:
    with pytest.raises(Conflict, match="gantry user modify"):
        with_new_user(FILE, User("jack", "x"))


@pytest.mark.parametrize("name", ["", "a b", "#a", "a:b", "-a", "a\nb", "ä", "{x}", "x" * 65])
def test_some_names_cannot_be_written_or_sent(name: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot be the name"):
        with_new_user(FILE, User(name, "x"))


def test_who_is_not_there_cannot_be_changed() -> None:
    with pytest.raises(NotFound, match="gantry user list"):
        without_user(FILE, "lonely")
    with pytest.raises(NotFound, match="gantry user list"):
        with_changed_user(FILE, User("#", "x"))
