"""Words for rights. Source: rapi.md section 2; DESIGN section 15."""

import pytest

from common.access import Role
from common.errors import InvalidRequest
from common.webaccess.rights import Grants, Right, Rights, check_words, read_grants, with_grants


@pytest.mark.parametrize(
    ("words", "grants"),
    [
        ("", Grants(Rights())),
        # Ganeti's two
        ("read", Grants(Rights(Role.READ))),
        ("write", Grants(Rights(Role.OPERATE))),
        ("write read", Grants(Rights(Role.OPERATE))),
        # ours
        ("submit", Grants(Rights(Role.SUBMIT))),
        ("read operate", Grants(Rights(Role.OPERATE))),
        ("admin", Grants(Rights(Role.ADMIN))),
        ("jobs.cancel unix=ci", Grants(Rights(single=frozenset({Right.JOBS_CANCEL})), "ci")),
        ("unix=a unix=b", Grants(Rights(), "b")),
        # nobody becomes the daemons' user over HTTP
        ("full", Grants(Rights(), unknown=("full",))),
        ("Read jobs.everything unix=", Grants(Rights(), unknown=("Read", "jobs.everything", "unix="))),
    ],
)
def test_words_give_rights_and_unknown_ones_nothing(words: str, grants: Grants) -> None:
    assert read_grants(words.split()) == grants


def test_a_role_takes_the_place_of_roles_only() -> None:
    words = ("write", "read", "foreign", "jobs.read", "unix=ci")

    assert with_grants(words, role="submit") == ("submit", "foreign", "jobs.read", "unix=ci")


def test_rights_and_the_unix_user_change_alone() -> None:
    words = ("read", "foreign", "jobs.read", "unix=ci")

    assert with_grants(words, add=["jobs.cancel", "read"], remove=["jobs.read"]) == (
        *("read", "foreign", "unix=ci"),
        "jobs.cancel",
    )
    assert with_grants(words, unix_user="web") == ("read", "foreign", "jobs.read", "unix=web")
    assert with_grants(words, unix_user="") == ("read", "foreign", "jobs.read")


@pytest.mark.parametrize("words", [[], ["full"], ["jobs.all"], ["unix=root"]])
def test_only_known_rights_can_be_given(words: list[str]) -> None:
    with pytest.raises(InvalidRequest, match=r"jobs\.cancel"):
        check_words(words)
