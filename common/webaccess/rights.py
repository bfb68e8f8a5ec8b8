"""Rights of callers over HTTP: the roles, and finer rights for tokens.

Theory. A call names the right that it needs. A caller has it by a role, which includes many rights, or by its name.
In luxid, the call is then made with the role that comes with it: so a token with `jobs.cancel` cancels any job,
but reads no more of it than everybody does.

Source: DESIGN section 15; DESIGN section 4, "Who is calling"; `common.access`.
"""

import enum
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from common.access import Role
from common.errors import InvalidRequest


class Right(enum.Enum):
    """A right as tokens name it."""

    JOBS_READ = "jobs.read"
    JOBS_SUBMIT = "jobs.submit"
    # cancel, kill and reprioritize jobs of all users; `jobs.submit` is enough for one's own
    JOBS_CANCEL = "jobs.cancel"
    JOBS_PRIORITY = "jobs.priority"
    JOBS_ARCHIVE = "jobs.archive"
    FILTERS_READ = "filters.read"
    FILTERS_WRITE = "filters.write"
    LOCKS_READ = "locks.read"
    # drain and open the queue, pause the watcher
    QUEUE_WRITE = "queue.write"
    # nodes, groups, networks, instances, the cluster
    CLUSTER_READ = "cluster.read"
    CLUSTER_WRITE = "cluster.write"
    METRICS_READ = "metrics.read"


# smallest role that has a right; luxid carries out the call with it
ROLE_OF: Final = {
    Right.JOBS_READ: Role.READ,
    Right.JOBS_SUBMIT: Role.SUBMIT,
    Right.JOBS_CANCEL: Role.OPERATE,
    Right.JOBS_PRIORITY: Role.OPERATE,
    Right.JOBS_ARCHIVE: Role.OPERATE,
    Right.FILTERS_READ: Role.READ,
    Right.FILTERS_WRITE: Role.OPERATE,
    Right.LOCKS_READ: Role.READ,
    Right.QUEUE_WRITE: Role.OPERATE,
    Right.CLUSTER_READ: Role.READ,
    # Ganeti's `write` submits every opcode
    Right.CLUSTER_WRITE: Role.OPERATE,
    Right.METRICS_READ: Role.READ,
}


@attrs.frozen
class Rights:
    """What a caller may do: by a role, and by single rights."""

    role: Role = Role.NONE
    single: frozenset[Right] = frozenset()

    @property
    def greatest(self) -> Role:
        """The greatest role with which any call is made."""
        return max(self.role, *(ROLE_OF[right] for right in self.single), Role.NONE)

    def role_for(self, needed: Iterable[Right]) -> Role:
        """The role with which a call is made that needs any one of these rights; NONE: the caller has none of them."""
        roles = [self.role if self.role >= ROLE_OF[right] else Role.NONE for right in needed]
        roles += [ROLE_OF[right] for right in needed if right in self.single]
        return max(roles, default=Role.NONE)


# Words by which users and tokens are given rights: roles, single rights, and Ganeti's two options.
#
# Ganeti's `read` is the role *read*, its `write` the role *operate*. Words that are not known are kept where they
# stand, and give nothing: a newer program may know them.
#
# Source: DESIGN section 15; rapi.md section 2.


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


# A caller over HTTP, after the check of a password or a token.


@attrs.frozen
class Principal:
    """A user or a token."""

    # "": nobody said a name
    name: str
    rights: Rights
    # login of the user as whom commands run, who owns the jobs; None: none, so no command can be run
    unix_user: str | None = None
    # id of the token that was shown; None: it was a password, or the kernel has named the caller
    token_id: str | None = None
    # what changes when the password or the token does; "": nothing can be changed, as the kernel has named the caller
    stamp: str = attrs.field(default="", repr=False)

    @property
    def is_anonymous(self) -> bool:
        return not self.name


NOBODY: Final = Principal("", Rights(Role.NONE))
