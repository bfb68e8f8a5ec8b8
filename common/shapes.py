"""Shapes that values have on the wire besides objects with the names of their fields; a class tells by its base.

`OwnForm` writes and reads itself. A `Row` is a list of its fields in order. A `Tagged` class is an object with its
`kind` in front, and a union of such classes is read by the kind; so is a union of `TaggedRow` by the first place.

Values of which nothing is said (`object`) are taken as they come, and so are lists marked `AS_IT_COMES`: of their rows
there may be hundreds of thousands. How all this is read and written is told in `common.shapehooks`.
"""

from collections.abc import Mapping
from typing import ClassVar, Final, Self

import attrs

# JSON whose inside is read elsewhere
JsonObject = Mapping[str, object]


class OwnForm:
    """What writes and reads its form by itself."""

    __slots__ = ()

    def to_wire(self) -> object:
        """The form, of JSON-able values."""
        raise NotImplementedError

    @classmethod
    def from_wire(cls, value: object) -> Self:
        """Raises: InvalidRequest, ValueError, KeyError, TypeError: it has another form."""
        raise NotImplementedError


class Row:
    """A list of its fields, in order."""

    __slots__ = ()


class TaggedRow(Row):
    """A list of its tag and its fields, in order."""

    __slots__ = ()
    TAG: ClassVar[bool]


class Tagged:
    """An object of its kind and its fields."""

    __slots__ = ()
    KIND: ClassVar[str]


@attrs.frozen
class OtherKind:
    """The member of a union of `Tagged` classes for kinds that only a newer release knows."""

    kind: str
    values: Mapping[str, object]


class AsItComes:
    """The mark of what is not looked at."""


# in `Annotated[list[...], AS_IT_COMES]`: a list is taken as it is, whoever reads it finds JSON lists for tuples
AS_IT_COMES: Final = AsItComes()
