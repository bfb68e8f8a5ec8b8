"""Shapes of values on the wire besides objects by field names; a class selects one by its base.

`OwnForm` writes and reads itself. A `Row` is a list of its fields in order. A `Lenient` class is an object whose
unknown keys are dropped. A `TaggedObject` class is an object with a `kind`, and a union of such classes is read by
the kind; a union of `TaggedRow` is read by the first element.
Values of type `object` are not checked, nor are lists marked `AS_IT_COMES`, which may have
hundreds of thousands of rows. `common.wire` reads and writes all of them.
"""

from collections.abc import Mapping
from typing import ClassVar, Final, Self

import attrs

# JSON object whose content is read elsewhere
JsonObject = Mapping[str, object]


class OwnForm:
    """A class that writes and reads its wire form itself."""

    __slots__ = ()

    def to_wire(self) -> object:
        """The wire form, of JSON-able values."""
        raise NotImplementedError

    @classmethod
    def from_wire(cls, value: object) -> Self:
        """Raises: InvalidRequest, ValueError, KeyError, TypeError: the value has another form."""
        raise NotImplementedError


class Row:
    """A list of its fields, in order."""

    __slots__ = ()


class Lenient:
    """An object of its fields: unknown keys are dropped on reading, fields at their defaults left out on writing.

    For what another program reports: its next release may report more.
    """

    __slots__ = ()


class TaggedRow(Row):
    """A list of its tag and its fields, in order."""

    __slots__ = ()
    TAG: ClassVar[bool]


class TaggedObject:
    """An object with its kind and its fields."""

    __slots__ = ()
    KIND: ClassVar[str]


@attrs.frozen
class OtherKind:
    """The member of a union of `TaggedObject` classes for kinds that only a newer release knows."""

    kind: str
    values: Mapping[str, object]


class AsItComes:
    """The marker for lists that are not checked."""


# for `Annotated[list[...], AS_IT_COMES]`: the list is taken unchecked; its rows are JSON lists instead of tuples
AS_IT_COMES: Final = AsItComes()


@attrs.frozen
class DocumentedAs:
    """The marker for values that are read elsewhere: the type that they have then, for documents."""

    kind: object
