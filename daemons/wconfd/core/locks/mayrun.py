"""Which owners have commands that may still run on nodes, and which of these owners are orphans.

A value. Invariant between calls: an owner with commands holds locks, and has at least one command. So the commands
of a living owner last until it holds nothing any more, however it has released its locks; a release of some of
them leaves the commands, which protect the others.

`protocol.wconfd.locks` has the theory, below its messages for locks; `orphanedlocks` decides when they go.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

import attrs
import orjson
from immutables import Map

from common.errors import DamagedFile, InvalidRequest
from common.jsontext import ascii_json
from common.locks import Owner
from protocol.wconfd.locks import CommandOnNode


@attrs.frozen
class OwnersCommands:
    """The commands of one owner that may still run."""

    # sorted, each once; at least one
    commands: tuple[CommandOnNode, ...]
    # its death, in seconds since 1970; None: it lives, or is not known to be dead
    since: float | None = None

    @property
    def is_orphaned(self) -> bool:
        return self.since is not None

    def with_commands(self, commands: Iterable[CommandOnNode]) -> "OwnersCommands":
        return OwnersCommands(tuple(sorted({*self.commands, *commands}, key=_place)), self.since)

    def without_keys(self, keys: Collection[str]) -> tuple[CommandOnNode, ...]:
        """The commands that may still run when nothing of these keys does."""
        return tuple(command for command in self.commands if command.key not in keys)


_NO_OWNERS: Final[Map[Owner, OwnersCommands]] = Map()


@attrs.frozen
class MayRun:
    """The commands of all owners that may still run. Start from `NOTHING_RUNS`."""

    _owners: Map[Owner, OwnersCommands] = _NO_OWNERS
    # derived: the owners that are orphans
    orphans: frozenset[Owner] = attrs.field(default=frozenset(), eq=False, repr=False)

    def __len__(self) -> int:
        """Number of owners with commands."""
        return len(self._owners)

    def __iter__(self) -> Iterator[tuple[Owner, OwnersCommands]]:
        """All owners, in owner order."""
        return iter(sorted(self._owners.items(), key=lambda row: row[0].sort_key()))

    def __contains__(self, owner: Owner) -> bool:
        return owner in self._owners

    def of(self, owner: Owner) -> OwnersCommands | None:
        """None: it has no commands."""
        return self._owners.get(owner)

    def keys(self) -> frozenset[str]:
        """The keys of all commands."""
        return frozenset(command.key for known in self._owners.values() for command in known.commands)

    def set(self, owner: Owner, known: OwnersCommands) -> "MayRun":
        """With these commands in place of the owner's; the very same if they are its commands already."""
        if self._owners.get(owner) == known:
            return self
        orphans = self.orphans | {owner} if known.is_orphaned else self.orphans - {owner}
        return MayRun(self._owners.set(owner, known), orphans)

    def without(self, owner: Owner) -> "MayRun":
        """The very same if the owner has none."""
        if owner not in self._owners:
            return self
        return MayRun(self._owners.delete(owner), self.orphans - {owner})

    def with_others_of(self, earlier: "MayRun") -> "MayRun":
        """With the commands that others had earlier and that have none now; the very same if there are no such."""
        both = self
        for owner, known in earlier._owners.items():
            if owner not in self._owners:
                both = both.set(owner, known)
        return both


NOTHING_RUNS: Final = MayRun()


def _place(command: CommandOnNode) -> tuple[str, str]:
    return (command.node, command.key)


# `MayRun` as the bytes of `ghosts.data`, and back: `{"guarded": [[owner, [[node, key], ...], since or null], ...]}`.
#
# Source: `protocol.wconfd.locks`.


_KEY: Final = "guarded"


def encode_may_run(commands: MayRun) -> bytes:
    """Compact JSON in pure ASCII, in owner order. Cost: O(commands)."""
    return ascii_json({_KEY: [_row(owner, known) for owner, known in commands]})


def decode_may_run(content: bytes) -> MayRun:
    """Rebuild the commands that were encoded.

    Raises: DamagedFile: it is something else; `where` is the place: `byte 17`, or `$.known[3]` for the fourth owner.
    """
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise _damaged(f"byte {len(error.doc[: error.pos].encode())}", error.msg) from error
    match value:
        case {"guarded": list() as rows} if len(value) == 1:
            return _read(rows)
        case _:
            raise _damaged("$", f"expected an object with the key {_KEY}")


def _row(owner: Owner, known: OwnersCommands) -> list[object]:
    return [owner.to_wire(), [[each.node, each.key] for each in known.commands], known.since]


def _read(rows: list[object]) -> MayRun:
    commands = NOTHING_RUNS
    for index, row in enumerate(rows):
        try:
            owner, known = _read_row(row)
        except InvalidRequest as error:
            raise _damaged(f"$.{_KEY}[{index}]", error.message) from error
        if owner in commands:
            raise _damaged(f"$.{_KEY}[{index}]", f"owner {owner} is listed twice")
        commands = commands.set(owner, known)
    return commands


def _read_row(row: object) -> tuple[Owner, OwnersCommands]:
    match row:
        case [owner, [_, *_] as commands, (None | int() | float()) as since] if not isinstance(since, bool):
            at = None if since is None else float(since)
            return Owner.from_wire(owner), OwnersCommands((), at).with_commands(map(_read_command, commands))
        case _:
            raise InvalidRequest(f"expected an owner, its commands, at least one, and its death or null; got {row!r}")


def _read_command(value: object) -> CommandOnNode:
    match value:
        case [str() as node, str() as key]:
            return CommandOnNode(node, key)
        case _:
            raise InvalidRequest(f"expected [node, key], got {value!r}")


def _damaged(where: str, what: str) -> DamagedFile:
    return DamagedFile(f"the list of commands for which locks are kept is damaged at {where}: {what}", where=where)
