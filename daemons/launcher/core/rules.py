"""The launcher's rules: the users as whom jobs of a submitter may run commands.

Theory. The daemons say whose job it is, and root's file says what follows from that: a submitter has targets, which
are logins, groups (`@web`: each member), `self`, or `*`. What is not listed is refused. `*` is every user but root and
the daemons' own: these must be named. A submitter may be named by login or by group, and has the targets of all lines.

Source: DESIGN sections 7 and 16.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

SELF: Final = "self"
ANYBODY: Final = "*"
_GROUP: Final = "@"


@attrs.frozen(kw_only=True)
class LauncherRules:
    """The content of the file."""

    # logins of the users who may call the launcher: those of luxid, of job processes and of noded
    callers: tuple[str, ...] = ("gantry",)
    # submitter -> targets
    run_as: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)


@attrs.frozen
class Person:
    """A user of this machine."""

    login: str
    uid: int
    # names of all groups
    groups: frozenset[str] = frozenset()

    def is_named(self, word: str) -> bool:
        """Whether a word of the rules, a login or a group, means this user."""
        return word.removeprefix(_GROUP) in self.groups if word.startswith(_GROUP) else word == self.login


def may_run_as(rules: LauncherRules, submitter: Person, user: Person) -> bool:
    """Whether a command of the submitter's job may run as this user."""
    return any(_is_target(rules, target, submitter, user) for target in _targets(rules, submitter))


def _targets(rules: LauncherRules, submitter: Person) -> Iterator[str]:
    for word, targets in rules.run_as.items():
        if submitter.is_named(word):
            yield from targets


def _is_target(rules: LauncherRules, target: str, submitter: Person, user: Person) -> bool:
    if target == SELF:
        return user.uid == submitter.uid
    is_special = user.uid == 0 or user.login in rules.callers
    if target == ANYBODY:
        return not is_special
    # a group gives neither root's rights nor the daemons'
    return user.is_named(target) and not (is_special and target.startswith(_GROUP))
