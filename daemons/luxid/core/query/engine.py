"""A query as a plan: which cells to make, of which things.

Source: luxid.md 2.2 ("classic rows"), 7.1, 7.2.
"""

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Generic, TypeVar

import attrs

from common.errors import PrerequisiteError
from common.objects.config import Node
from common.objects.kinds import natural_key, short_names
from common.query.predicate import NO_VALUE, Field, FilterError, compile_expression
from common.query.qlang import Compare, Expression, Not, Order, Some, Value, implied, named_values
from protocol.luxi.queries import FieldDefinition

# What a field of a query is, and what may stand in a cell.
#
# Source: luxid.md 7.1.


T_contra = TypeVar("T_contra", contravariant=True)


class FieldKind(enum.Enum):
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


class CellStatus(enum.Enum):
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
    kind: FieldKind
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
            if isinstance(found, CellStatus):
                return NO_VALUE
            return found if comparable is None else comparable(found)

        return Field(value, self.aliases)


def unknown_field(name: str) -> QueryField[object]:
    """What stands for a field that does not exist."""
    return QueryField(name, name, FieldKind.UNKNOWN, f"there is no field {name!r}", lambda _: CellStatus.UNKNOWN_FIELD)


def or_unavailable(value: object) -> object:
    return CellStatus.UNAVAILABLE if value is None else value


def host_aliases(name: object) -> Sequence[str]:
    """The short forms of a host name; of anything else none."""
    return short_names(name) if isinstance(name, str) else ()


# What only node daemons know, and why it may be lacking.
#
# Theory. A field that is read from the facts of node daemons names its need. Nodes are asked only if a field that is
# shown or filtered by has one, and only for what is needed. Without other machines nobody is asked.
#
# Source: luxid.md 7.6, "live data"; noded.md 6.


R = TypeVar("R")


class NoFacts(enum.Enum):
    """Why a node daemon told nothing."""

    # there are no node daemons, or a fault of this machine kept it from asking: that is no verdict about the node
    NOT_ASKED = "not asked"
    # the node is marked offline, so it was not asked
    OFFLINE = "offline"
    # the node gave no reply in time, refused, or replied with something else
    FAILED = "failed"


@attrs.frozen
class RowsWithNotes(Generic[R]):
    """Rows with what node daemons have told."""

    rows: Sequence[R]
    # for people: which nodes have told nothing, and why
    notes: Sequence[str] = ()


def status_without(reason: NoFacts, node: Node | None) -> CellStatus:
    """What the cells of a node, or of what is on it, show without facts."""
    is_marked = reason is NoFacts.NOT_ASKED and node is not None and node.offline
    return CellStatus.OFFLINE if is_marked or reason is NoFacts.OFFLINE else CellStatus.NO_DATA


def or_no_data(value: object) -> object:
    return CellStatus.NO_DATA if value is None else value


@attrs.frozen
class Things(Generic[T_contra]):
    """A kind of things that can be asked for."""

    # in errors
    what: str
    fields: Mapping[str, QueryField[T_contra]]
    # the field that names a thing; a filter that only lists names is a look-up
    name_field: str
    # makes the fields whose names are not known beforehand; None: it is no such name
    dynamic: Callable[[str], QueryField[T_contra] | None] = lambda _: None

    @classmethod
    def of(
        cls,
        what: str,
        fields: Iterable[QueryField[T_contra]],
        *,
        name_field: str,
        dynamic: Callable[[str], QueryField[T_contra] | None] = lambda _: None,
    ) -> "Things[T_contra]":
        return cls(what, {field.name: field for field in fields}, name_field, dynamic)

    def definitions(self, names: Sequence[str] | None) -> list[FieldDefinition]:
        """The fields of these names, also unknown ones; none named: all, by name."""
        wanted = names or sorted(self.fields, key=natural_key)
        return [self._field(name).definition() for name in wanted]

    def plan(self, names: Sequence[str], filter: Expression | None) -> "QueryPlan[T_contra]":
        """Prepare a query; unknown fields give cells that say so.

        Raises: FilterError: the filter names an unknown field.
        """
        fields = tuple(self._field(name) for name in names)
        if filter is None:
            return QueryPlan(fields, None, frozenset(names), self._needs(names), None)
        asked = named_values(filter, self.name_field)
        lacking: Counter[str] = Counter()
        test = compile_expression(filter, self._filtered, missing=lambda name: lacking.update((name,)))
        used = frozenset((*names, *filter.field_names()))
        needs = self._needs(used)
        hopeless = self._hopeless(filter) if needs else None
        return QueryPlan(fields, asked, used, needs, test, self.what, lacking, hopeless)

    def plan_classic(self, names: Sequence[str], filter: Expression | None = None) -> "QueryPlan[T_contra]":
        """Prepare a query of the old form.

        Raises: PrerequisiteError: names all unknown fields, in order.
        """
        if unknown := [name for name in names if self._known(name) is None]:
            raise PrerequisiteError(
                f"unknown {self.what} fields: {', '.join(unknown)}; known are {', '.join(self.fields)}", "wrong_input"
            )
        return self.plan(names, filter)

    def named(self, names: Sequence[str], *fields: str) -> Expression | None:
        """The filter for the things that have one of these names in one of the fields; none named: no filter."""
        if not names:
            return None
        return Some(tuple(Compare(field, Order.EQUAL, name) for field in fields for name in names))

    def _needs(self, names: Iterable[str]) -> frozenset[Need]:
        found = (self._field(name).need for name in names)
        return frozenset(need for need in found if need is not None)

    def _hopeless(self, filter: Expression) -> Callable[[T_contra], bool]:
        """Whether the filter is false for a thing, whatever node daemons will tell."""
        is_false = Not(implied(filter, lambda name: self._field(name).need is None))
        return compile_expression(is_false, self._filtered)

    def _field(self, name: str) -> QueryField[T_contra]:
        return self._known(name) or unknown_field(name)

    def _known(self, name: str) -> QueryField[T_contra] | None:
        return self.fields.get(name) or self.dynamic(name)

    def _filtered(self, name: str) -> Field[T_contra] | None:
        field = self._known(name)
        return field.as_filtered() if field is not None else None


@attrs.frozen
class QueryPlan(Generic[T_contra]):
    fields: tuple[QueryField[T_contra], ...]
    # the filter only lists these names; None: it does not
    asked: tuple[Value, ...] | None
    # names of fields that are shown or filtered by
    used: frozenset[str]
    # what node daemons must be asked for them
    needs: frozenset[Need]
    _test: Callable[[T_contra], bool] | None
    # access as in `Things`
    _what: str = ""
    # field -> how many things were left out for want of its value, so far
    _lacking: Mapping[str, int] = attrs.field(factory=dict)
    _hopeless: Callable[[T_contra], bool] | None = None

    def definitions(self) -> list[FieldDefinition]:
        return [field.definition() for field in self.fields]

    def hopeful(self, things: Iterable[T_contra]) -> list[T_contra]:
        """Those of the things that may pass the filter, judged before node daemons are asked."""
        if self._hopeless is None:
            return list(things)
        return [thing for thing in things if not self._is_hopeless(thing)]

    def _is_hopeless(self, thing: T_contra) -> bool:
        try:
            return self._hopeless is not None and self._hopeless(thing)
        except FilterError:
            # the filter may stop before it comes to the mistake
            return False

    def rows(self, things: Iterable[T_contra]) -> list[list[tuple[int, object]]]:
        """The rows of those things that pass the filter; cells are (status, value).

        Raises: FilterError: the filter compares what cannot be compared.
        """
        readers = [field.read for field in self.fields]
        return [[_cell(read(thing)) for read in readers] for thing in self._passing(things)]

    def classic_rows(self, things: Iterable[T_contra]) -> list[list[object]]:
        """Rows of bare values, null where there is none. Raises: as `rows`."""
        readers = [field.read for field in self.fields]
        return [[_bare(read(thing)) for read in readers] for thing in self._passing(things)]

    def notes(self) -> list[str]:
        """For people: by which fields the filter could not judge some of the things seen so far."""
        return [
            f"left out {count} {self._what}{'s' if count > 1 else ''}: field {name!r}, "
            "by which the filter judges, has no value there"
            for name, count in self._lacking.items()
        ]

    def _passing(self, things: Iterable[T_contra]) -> Iterable[T_contra]:
        return things if self._test is None else filter(self._test, things)


def _cell(value: object) -> tuple[int, object]:
    return (value.value, None) if value.__class__ is CellStatus else (NORMAL, value)


def _bare(value: object) -> object:
    return None if value.__class__ is CellStatus else value
