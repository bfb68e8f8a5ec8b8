"""Which updates were made lately, so that one that is sent again after a lost reply is known again. Pure.

Theory. An update says from which state of its object it starts: the serial number is part of what is given. Two
calls that give the very same object want the same change of the same state, and one of them was made. So the
second may be answered as the first was, whatever was built upon it since. What has changed since need not show in the
serial number: a port that is allocated changes the cluster, and leaves it.

Only the newest are kept. A call is sent again within moments, and they shall fit beside the file (`ROOM`).
"""

import hashlib
from collections.abc import Mapping
from typing import Final

import attrs
import orjson

# serial number and mtime of an object after its change
Stamp = tuple[int, float]

# number of deliveries kept: with their stamps less than 3 KiB, which file systems keep beside a file
ROOM: Final = 40
_DIGEST_BYTES: Final = 12


@attrs.frozen
class Delivery:
    """An update by its content: two that are equal are one call, delivered twice."""

    digest: str

    @classmethod
    def of(cls, value: Mapping[str, object]) -> "Delivery":
        """Args: value: the object as it was given, with its uuid and its serial number."""
        content = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        return cls(hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest())


@attrs.frozen
class Deliveries:
    """A value; start from `Deliveries()`."""

    # deliveries, the oldest first, at most ROOM
    _stamps: tuple[tuple[Delivery, Stamp], ...] = ()

    def stamp_of(self, delivery: Delivery) -> Stamp | None:
        """What the first delivery was told; None: it was not made, or long ago."""
        return next((stamp for known, stamp in self._stamps if known == delivery), None)

    def with_one(self, delivery: Delivery, stamp: Stamp) -> "Deliveries":
        others = tuple(each for each in self._stamps if each[0] != delivery)
        return Deliveries((*others, (delivery, stamp))[-ROOM:])

    def encode(self) -> bytes:
        return orjson.dumps([[delivery.digest, *stamp] for delivery, stamp in self._stamps])

    @classmethod
    def decode(cls, content: bytes) -> "Deliveries":
        """Read what `encode` has written; whatever else it is, nothing is known."""
        try:
            rows = orjson.loads(content)
            return cls(tuple((Delivery(str(digest)), (int(serial), float(at))) for digest, serial, at in rows))
        except (ValueError, TypeError):
            return cls()
