"""An opcode's input as JSON text, which looks like the object that it stands for.

Theory. Jobs of a long queue are kept in memory, and of most of them nobody looks at the input before their turn comes.
As objects it takes four times the room of its text: a tree of dicts, lists and numbers for each. So it is kept as text
and read when it is looked at; the last few that were read are at hand, as several look at one job in turn.

Source: DESIGN section 6.
"""

from collections.abc import ItemsView, Iterator, KeysView, Mapping
from functools import lru_cache
from typing import Final

import attrs
import orjson

_AT_HAND: Final = 16


@attrs.frozen(eq=False, weakref_slot=False)
class PackedInput(Mapping[str, object]):
    """The input of an opcode; equal to an object with the same content. Cost of a look: that of reading the JSON."""

    # compact; one object
    text: str

    def __getitem__(self, key: str) -> object:
        return _read(self.text)[key]

    def get(self, key: str, default: object = None) -> object:
        return _read(self.text).get(key, default)

    def __iter__(self) -> Iterator[str]:
        return iter(_read(self.text))

    def __len__(self) -> int:
        return len(_read(self.text))

    def items(self) -> ItemsView[str, object]:
        return _read(self.text).items()

    def keys(self) -> KeysView[str]:
        return _read(self.text).keys()


def pack(op_input: Mapping[str, object]) -> Mapping[str, object]:
    """The same input in little room; as it is if it cannot be written: JSON may be nested deeper than we write it."""
    try:
        # as text: orjson leaves four kilobytes behind its bytes, and these are kept
        return PackedInput(str(orjson.dumps(op_input), "utf-8"))
    except orjson.JSONEncodeError:
        return op_input


@lru_cache(maxsize=_AT_HAND)
def _read(text: str) -> dict[str, object]:
    found: dict[str, object] = orjson.loads(text)
    return found
