"""A disk that may lose power: what is on it at any moment of a run, after all that fsync does not forbid.

Theory. The operations of a run are played on the model in their order. Entries of folders (a file made, renamed,
removed) and contents are kept apart, as file systems do. Content is safe when its file was synced, or was written by a
descriptor that syncs; until then it may be there, or not, or in part, or as zeros. An entry is safe when its folder
was synced. For entries there are two kinds of disk:

* one that *orders* them: of what was not synced a beginning is there. A sync of any folder takes along all that came
  before.
* one that does not: each operation that was not synced is there or not, independent of later ones.

A rename is there or not as a whole, on both.

Source: DESIGN section 3 ("also after a crash"); the promises of POSIX, and of journaling file systems.
"""

import enum
import itertools
import os
import random
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

# of all subsets of what may be lost, no more than these are tried
_ALL_SUBSETS: Final = 5
_RANDOM_SUBSETS: Final = 6

# paths -> contents; None: a folder
Tree = Mapping[str, bytes | None]


@attrs.frozen
class Operation:
    """One recorded change; `what` says which fields count.

    create, mkdir, unlink, rmdir: path       rename, link: path, target
    write: node, offset, content, synced     truncate: node, offset
    sync: node, or path of a folder
    answer: a client has been answered
    """

    what: str
    path: str = ""
    target: str = ""
    node: int = 0
    offset: int = 0
    content: bytes = b""
    synced: bool = False
    # bytes of the tally just before
    tally: int = 0
    # who made it, for a reader
    role: str = ""


class Fate(enum.Enum):
    """What became of contents that were not synced."""

    THERE = "there"
    LOST = "lost"
    HALF = "half"
    ZEROS = "zeros"


@attrs.frozen
class _Edit:
    """A change of entries that is not safe."""

    folders: tuple[str, ...]
    # path -> its file, or None: gone
    entries: tuple[tuple[str, int | None], ...]


@attrs.define
class _Content:
    safe: bytes = b""
    # offset and content; content None: cut off at the offset
    unsafe: list[tuple[int, bytes | None]] = attrs.Factory(list)

    def after(self, fate: Fate) -> bytes:
        content = self.safe
        last = len(self.unsafe) - 1
        for place, (offset, data) in enumerate(self.unsafe):
            if fate is Fate.LOST:
                break
            content = _changed(content, offset, data, fate if place == last else Fate.THERE, zeros=fate is Fate.ZEROS)
        return content


class Disk:
    """The model.

    Args:
        tree: what is safe at the beginning.
    """

    def __init__(self, tree: Mapping[str, bytes | None], *, orders: bool) -> None:
        self._orders = orders
        self._entries: dict[str, int | None] = {}
        self._contents: dict[int, _Content] = {}
        self._folders: set[str] = set()
        self._unsafe: list[_Edit] = []
        # of the recording -> of the model, since a number may be used again
        self._nodes: dict[int, int] = {}
        # as all processes see it
        self._now: dict[str, int | None] = {}
        self._next = itertools.count(1)
        for path, content in tree.items():
            number = next(self._next)
            self._entries[path] = self._now[path] = number
            if content is None:
                self._folders.add(path)
                self._contents[number] = _Content()
            else:
                self._contents[number] = _Content(content)

    def know(self, nodes: Mapping[str, int]) -> None:
        """The numbers that the recording has for files of the beginning."""
        for path, node in nodes.items():
            known = self._now[path]
            assert known is not None
            self._nodes[node] = known

    def play(self, operation: Operation) -> None:
        match operation.what:
            case "create" | "mkdir":
                self._make(operation)
            case "unlink" | "rmdir":
                self._edit((operation.path, None))
            case "rename" | "link":
                moved = self._now.get(operation.path)
                gone = ((operation.path, None),) if operation.what == "rename" else ()
                self._edit(*gone, (operation.target, moved))
            case "write" | "truncate":
                self._change(operation)
            case "sync":
                self._sync(operation)
            case _:
                pass

    def now(self) -> Tree:
        """What running processes see."""
        return {
            path: None if path in self._folders else self._contents[number].after(Fate.THERE)
            for path, number in sorted(self._now.items())
            if number is not None
        }

    def states(self, chance: random.Random) -> Iterator[tuple[str, Tree]]:
        """What may be found when the power comes back, each with words for it."""
        for name, edits in self._choices(chance):
            entries = dict(self._entries)
            for edit in edits:
                entries.update(edit.entries)
            there = {path: number for path, number in entries.items() if number is not None}
            there = {path: number for path, number in there.items() if self._is_reached(path, there)}
            unsafe = any(self._contents[number].unsafe for number in there.values())
            for fate in Fate if unsafe else (Fate.THERE,):
                yield (
                    f"{name}, contents {fate.value}",
                    {
                        path: None if path in self._folders else self._contents[number].after(fate)
                        for path, number in sorted(there.items())
                    },
                )

    def _choices(self, chance: random.Random) -> Iterator[tuple[str, list[_Edit]]]:
        unsafe = self._unsafe
        if self._orders:
            for count in range(len(unsafe) + 1):
                yield f"the first {count} of {len(unsafe)} entries", unsafe[:count]
            return
        for lost in _subsets(len(unsafe), chance):
            yield (
                f"entries {sorted(lost)} of {len(unsafe)} lost",
                [edit for at, edit in enumerate(unsafe) if at not in lost],
            )

    def _is_reached(self, path: str, there: Mapping[str, int]) -> bool:
        folder = os.path.dirname(path)
        return folder not in self._folders or (folder in there and self._is_reached(folder, there))

    def _make(self, operation: Operation) -> None:
        number = next(self._next)
        self._contents[number] = _Content()
        self._nodes[operation.node] = number
        if operation.what == "mkdir":
            self._folders.add(operation.path)
        self._edit((operation.path, number))

    def _edit(self, *entries: tuple[str, int | None]) -> None:
        self._now.update(entries)
        folders = tuple(dict.fromkeys(os.path.dirname(path) for path, _ in entries))
        self._unsafe.append(_Edit(folders, entries))

    def _change(self, operation: Operation) -> None:
        content = self._contents[self._nodes[operation.node]]
        data = operation.content if operation.what == "write" else None
        content.unsafe.append((operation.offset, data))
        if operation.synced:
            self._make_safe(content)

    def _sync(self, operation: Operation) -> None:
        if operation.path not in self._folders:
            self._make_safe(self._contents[self._nodes[operation.node]])
            return
        touching = [at for at, edit in enumerate(self._unsafe) if operation.path in edit.folders]
        if self._orders:
            count = touching[-1] + 1 if touching else 0
            safe, self._unsafe = self._unsafe[:count], self._unsafe[count:]
        else:
            safe = [self._unsafe[at] for at in touching]
            self._unsafe = [edit for at, edit in enumerate(self._unsafe) if at not in touching]
        for edit in safe:
            self._entries.update(edit.entries)

    def _make_safe(self, content: _Content) -> None:
        content.safe = content.after(Fate.THERE)
        content.unsafe.clear()


def _changed(before: bytes, offset: int, data: bytes | None, fate: Fate, *, zeros: bool) -> bytes:
    if data is None:
        return before[:offset].ljust(offset, b"\0")
    if zeros:
        data = bytes(len(data))
    elif fate is Fate.HALF:
        data = data[: len(data) // 2]
    before = before.ljust(offset, b"\0")
    return before[:offset] + data + before[offset + len(data) :]


def _subsets(count: int, chance: random.Random) -> list[frozenset[int]]:
    """Which of so many are lost: all subsets of a few; of many none, all, each alone, all but one, some by chance."""
    if count <= _ALL_SUBSETS:
        return [frozenset(lost) for size in range(count + 1) for lost in itertools.combinations(range(count), size)]
    every = frozenset(range(count))
    found = [frozenset[int](), every, *(frozenset({at}) for at in every), *(every - {at} for at in every)]
    found += [frozenset(at for at in every if chance.random() < 0.5) for _ in range(_RANDOM_SUBSETS)]
    return list(dict.fromkeys(found))
