"""What a field of a query is, and what may stand in a cell.

Source: luxid.md 7.1.
"""

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Generic, TypeVar

import attrs

from common.objects.naming import short_names
from common.query.predicate import NO_VALUE, Field
from common.query.qlang import Value
from protocol.luxi.queries import FieldDefinition

T_contra = TypeVar("T_contra", contravariant=True)


class Kind(enum.Enum):
    """What a client may expect of the values, to lay them out."""

    UNKNOWN = "unknown"
    TEXT = "text"
    BOOL = "bool"
    NUMBER = "number"
    FLOAT = "float"
    # MiB
    UNIT = "unit"
    # seconds since the epoch
    TIMESTAMP = "timestamp"
    OTHER = "other"


class Status(enum.Enum):
    """Why a cell has no value."""

    UNKNOWN_FIELD = 1
    # it is known on a node, and could not be asked there
    NO_DATA = 2
    # there is none for this thing
    UNAVAILABLE = 3
    # the node to be asked is marked offline
    OFFLINE = 4


NORMAL: Final = 0


class Need(enum.Enum):
    """The facts of node daemons that a field is read from; see `live`."""

    # what every reply to `node_info` has
    NODE = "node"
    # memory and processors
    HYPERVISOR = "hypervisor"
    STORAGE = "storage"
    # instances that run on a node
    INSTANCES = "instances"
    CONSOLES = "consoles"
    EXPORTS = "exports"


@attrs.frozen
class QueryField(Generic[T_contra]):
    """One field of the things of a kind."""

    name: str
    title: str
    kind: Kind
    doc: str
    # the value, JSON-able; or why there is none
    read: Callable[[T_contra], object]
    # what a filter compares; None: the value
    comparable: Callable[[object], object] | None = None
    # what else a filter's `==` takes for the same as a value
    aliases: Callable[[object], Iterable[Value]] | None = None
    # what node daemons must be asked; None: nothing
    need: Need | None = None

    def definition(self) -> FieldDefinition:
        """As clients get it."""
        return FieldDefinition(self.name, self.title, self.kind.value, self.doc)

    def as_filtered(self) -> Field[T_contra]:
        read, comparable = self.read, self.comparable

        def value(thing: T_contra) -> object:
            found = read(thing)
            if isinstance(found, Status):
                return NO_VALUE
            return found if comparable is None else comparable(found)

        return Field(value, self.aliases)


def unknown_field(name: str) -> QueryField[object]:
    """What stands for a field that does not exist."""
    return QueryField(name, name, Kind.UNKNOWN, f"there is no field {name!r}", lambda _: Status.UNKNOWN_FIELD)


def or_unavailable(value: object) -> object:
    return Status.UNAVAILABLE if value is None else value


def host_aliases(name: object) -> Sequence[str]:
    """The short forms of a host name; of anything else none."""
    return short_names(name) if isinstance(name, str) else ()
