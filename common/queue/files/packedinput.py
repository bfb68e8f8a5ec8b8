"""An opcode's input, kept as JSON text and read like an object.

Theory. Jobs of a long queue are kept in memory, and the input of most of them is not read before their turn comes.
As objects, a tree of dicts, lists and numbers, it takes four times the memory of its text. So it is kept as text and
parsed at each access; the last few objects are cached, as several parts read one job in turn.

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
    """The input of an opcode; equal to an object with the same content. An access parses the JSON unless cached."""

    # compact JSON; one object
    text: bytes

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
    """Return the same input, packed; unchanged if it is nested too deeply to be encoded."""
    try:
        # copied: the bytes from orjson keep four unused kilobytes, and these texts stay in memory
        return PackedInput(bytes(memoryview(orjson.dumps(op_input))))
    except orjson.JSONEncodeError:
        return op_input


@lru_cache(maxsize=_AT_HAND)
def _read(text: bytes) -> dict[str, object]:
    found: dict[str, object] = orjson.loads(text)
    return found
