"""Words by which users and tokens are given rights: roles, single rights, and Ganeti's two options.

Ganeti's `read` is the role *read*, its `write` the role *operate*. Words that are not known are kept where they stand,
and give nothing: a newer program may know them.

Source: DESIGN section 15; rapi.md section 2.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from common.access import Role
from common.errors import InvalidRequest
from common.webaccess.rights import Right, Rights

_UNIX: Final = "unix="
_GANETIS: Final = {"write": Role.OPERATE}
ROLES: Final = {role.word: role for role in (Role.READ, Role.SUBMIT, Role.OPERATE, Role.ADMIN)}
_ROLE_WORDS: Final = {**ROLES, **_GANETIS}
_RIGHT_WORDS: Final = {right.value: right for right in Right}


@attrs.frozen
class Grants:
    """The meaning of some words."""

    rights: Rights
    # login of the user as whom commands run; None: none is named
    unix_user: str | None = None
    # words that mean nothing to us
    unknown: tuple[str, ...] = ()


def read_grants(words: Iterable[str]) -> Grants:
    """What these words give; of several Unix users the last one counts."""
    words = tuple(words)
    roles = [_ROLE_WORDS[word] for word in words if word in _ROLE_WORDS]
    single = frozenset(_RIGHT_WORDS[word] for word in words if word in _RIGHT_WORDS)
    logins = [word.removeprefix(_UNIX) for word in words if _is_unix(word)]
    known = (*_ROLE_WORDS, *_RIGHT_WORDS)
    unknown = tuple(word for word in words if word not in known and not _is_unix(word))
    return Grants(Rights(max(roles, default=Role.NONE), single), logins[-1] if logins else None, unknown)


def _is_unix(word: str) -> bool:
    return word.startswith(_UNIX) and word != _UNIX


def unix_word(login: str) -> str:
    """The word that names the Unix user."""
    return _UNIX + login


def with_grants(
    words: Sequence[str],
    *,
    role: str | None = None,
    add: Iterable[str] = (),
    remove: Iterable[str] = (),
    unix_user: str | None = None,
) -> tuple[str, ...]:
    """Words changed in some points; those that are not concerned stay as they are.

    Args:
        role: takes the place of all roles. None: they stay.
        add, remove: single rights.
        unix_user: "": none from now on. None: it stays.
    """
    kept = [word for word in words if word not in remove]
    if role is not None:
        kept = [role, *(word for word in kept if word not in _ROLE_WORDS)]
    kept += [word for word in add if word not in kept]
    if unix_user is not None:
        kept = [word for word in kept if not word.startswith(_UNIX)]
        kept += [unix_word(unix_user)] if unix_user else []
    return tuple(kept)


def check_words(words: Iterable[str]) -> tuple[str, ...]:
    """Words for rights, as a user has typed them. Raises: InvalidRequest: an unknown one, or none at all."""
    known = (*ROLES, *_RIGHT_WORDS)
    checked = tuple(dict.fromkeys(words))
    for word in checked:
        if word not in known:
            raise InvalidRequest(f"there is no right '{word}'; known are {', '.join(known)}")
    if not checked:
        raise InvalidRequest(f"name at least one right, of {', '.join(known)}")
    return checked
