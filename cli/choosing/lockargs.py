"""Locks as the user types them: `node/web1`, `node/web1:shared`."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import attrs
import click

from common.errors import InvalidRequest
from common.locks import LockLevel, asked_lock, parse_lock

if TYPE_CHECKING:
    # what completes a word imports it; the start of every other command does without
    from click.shell_completion import CompletionItem

_MODES: Final = ("shared", "exclusive")
# the end of an IPv6 or MAC address: such a name contains colons itself
_ADDRESS: Final = re.compile(r".*:.*:[0-9a-fA-F]{1,4}")


@attrs.frozen
class LockWish:
    """A lock by name and the mode to hold it in."""

    lock: str
    mode: str


class LockType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """`NAME[:shared|exclusive]`; exclusive if left out."""

    name = "lock"

    def convert(self, value: str | LockWish, param: click.Parameter | None, ctx: click.Context | None) -> LockWish:
        if isinstance(value, LockWish):
            return value
        name, colon, mode = value.rpartition(":")
        if not colon or _ADDRESS.fullmatch(value):
            name, mode = value, "exclusive"
        if mode not in _MODES:
            self.fail(
                f"'{mode}' is not a lock mode; write shared or exclusive, "
                f"or '{value}:exclusive' if the colon belongs to the name",
                param,
                ctx,
            )
        try:
            lock = asked_lock(parse_lock(name))
        except InvalidRequest as error:
            self.fail(error.message, param, ctx)
        if not (lock.name or lock.is_group or lock.level is LockLevel.CONFIG):
            self.fail(f"lock name '{name}' names nothing; write it as 'node/NAME'", param, ctx)
        return LockWish(str(lock), mode)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        from cli.gantry.completion import complete_locks

        # no command runs while the shell asks, so its context is not yet the current one
        with ctx.scope(cleanup=False):
            return complete_locks(incomplete)


LOCK: Final = LockType()


def lock_modes(wishes: Iterable[LockWish]) -> dict[str, str]:
    """Lock -> mode. Raises: UsageError: a lock is wanted in two modes."""
    modes: dict[str, str] = {}
    for wish in wishes:
        if modes.setdefault(wish.lock, wish.mode) != wish.mode:
            raise click.UsageError(f"--lock names '{wish.lock}' as shared and as exclusive; write it once")
    return modes
