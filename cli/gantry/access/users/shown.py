"""Users as they are shown, to people and as JSON; never with their passwords."""

from collections.abc import Sequence
from typing import assert_never

from common.access import Role
from common.webaccess.passwords import ClearText, Ha1, Scrypt, UnknownForm, read_password
from common.webaccess.rights import Rights
from common.webaccess.userstext import User


def user_json(user: User) -> dict[str, object]:
    grants = user.grants
    return {
        "name": user.name,
        "role": role_word(grants.rights),
        "rights": single_rights(grants.rights),
        "unix_user": grants.unix_user,
        "password": password_form(user),
        "unknown_options": list(grants.unknown),
    }


def role_word(rights: Rights) -> str | None:
    """None: no role."""
    return None if rights.role is Role.NONE else rights.role.word


def single_rights(rights: Rights) -> Sequence[str]:
    return sorted(right.value for right in rights.single)


def password_form(user: User) -> str:
    """How the password is stored."""
    form = read_password(user.password)
    match form:
        case ClearText():
            return "clear text"
        case Ha1():
            return "digest"
        case Scrypt():
            return "hash"
        case UnknownForm(scheme):
            return f"unknown: {scheme}"
        case _:
            assert_never(form)
