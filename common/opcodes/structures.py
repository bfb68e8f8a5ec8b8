"""Parameters with a structure of their own: network interfaces, disks, and changes to lists of them.

Source: opcodes.md 3, "Structures".
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Generic, TypeVar

import attrs

from common.errors import InvalidRequest
from common.objects.kinds import DiskMode
from common.opcodes.types import DiskIndex, JsonObject, ListAction, NonEmpty, Reader
from common.shapehooks import expected
from common.sizes import read_mebibytes
from common.validation import Checked

P_co = TypeVar("P_co", covariant=True)

# reader of a structure's part: (JSON value, type) -> typed value
ReadPart = Callable[[object, object], Any]

Size = Annotated[int, Reader(read_mebibytes, {"type": ["integer", "string"]})]


@attrs.frozen(kw_only=True)
class NicParams:
    """A requested network interface; unset fields take the cluster's defaults."""

    mac: NonEmpty | None = None
    ip: str | None = None
    mode: NonEmpty | None = None
    link: NonEmpty | None = None
    name: NonEmpty | None = None
    vlan: str | None = None
    bridge: NonEmpty | None = None
    network: NonEmpty | None = None


@attrs.frozen(kw_only=True)
class DiskParams:
    """A requested disk."""

    # MiB; may be given as text with a unit
    size: Size | None = None
    mode: DiskMode | None = None
    adopt: NonEmpty | None = None
    vg: NonEmpty | None = None
    metavg: NonEmpty | None = None
    name: NonEmpty | None = None
    provider: NonEmpty | None = None
    access: NonEmpty | None = None
    spindles: int | None = None
    # keys of an external storage provider; none of them is one of the above
    other: Mapping[str, object] = attrs.field(factory=dict)

    @classmethod
    def from_wire(cls, value: object, read: ReadPart) -> "DiskParams":
        """Raises: ValueError: the value is not an object, or a known key has a wrong type."""
        given: dict[str, object] = read(value, JsonObject)
        own = {
            key: read(item, _DISK_KEYS[key]) for key, item in given.items() if key in _DISK_KEYS and item is not None
        }
        return cls(**own, other={key: item for key, item in given.items() if key not in _DISK_KEYS})

    def to_wire(self) -> dict[str, object]:
        own = {key: getattr(self, key) for key in _DISK_KEYS}
        mode = {"mode": self.mode.value} if self.mode else {}
        return {key: item for key, item in own.items() if item is not None} | mode | dict(self.other)


_DISK_KEYS: Final[Mapping[str, object]] = {
    field.name: field.type for field in attrs.fields(DiskParams) if field.name != "other"
}

_MODIFY: Final = "modify"
_ACTIONS: Final = frozenset(action.value for action in ListAction)


@attrs.frozen
class Change(Generic[P_co]):
    """One change to an instance's list of network interfaces or disks.

    The old form has an action or a place, the newer ones both; the form is kept.
    """

    params: P_co
    # add, attach, remove, detach or modify; None beside a place: modify, in the old form
    action: str | None
    # index, -1 for the end; in the newest form a name or uuid
    place: int | str | None

    @property
    def form(self) -> type | None:
        """The form, equal in all changes of a list: None unless it has place and action, else the type of the place."""
        return None if self.action is None or self.place is None else type(self.place)

    @classmethod
    def from_wire(cls, value: object, kind: object, read: ReadPart) -> "Change[P_co]":
        """Read `[action or index, params]` or `[action, index or name, params]`.

        Args:
            kind: type of the parameters.
        Raises: ValueError: the value has another form, or the parameters are wrong.
        """
        match value:
            case [str() as action, params] if action in _ACTIONS:
                return cls(read(params, kind), action, None)
            case [int() as place, params] if not isinstance(place, bool):
                return cls(read(params, kind), None, place)
            case [str() as action, (int() | str()) as place, params] if _is_change(action, place):
                return cls(read(params, kind), action, place)
            case _:
                raise expected("a change [add, attach, remove, detach or modify, index or name, parameters]", value)

    def to_wire(self, params: object) -> list[object]:
        """Args: params: JSON form of this change's parameters."""
        return [part for part in (self.action, self.place) if part is not None] + [params]


def _is_change(action: str, place: int | str) -> bool:
    return (action == _MODIFY or action in _ACTIONS) and place != "" and not isinstance(place, bool)


def of_one_form(_: object, attribute: Checked, value: Sequence[Change[object]]) -> None:
    """A validator: all changes of a list have the same form."""
    if len({change.form for change in value}) > 1:
        raise InvalidRequest(f"{attribute.name} must not mix changes by index, by name, and in the old form")


@attrs.frozen
class RecreatedDisk:
    """A disk to create again, changed or unchanged."""

    index: int
    # parameters to change; None: the short form, a bare index
    params: DiskParams | None = None

    @classmethod
    def from_wire(cls, value: object, read: ReadPart) -> "RecreatedDisk":
        """Raises: ValueError: neither an index nor `[index, parameters]`."""
        match value:
            case [index, params]:
                return cls(read(index, DiskIndex), read(params, DiskParams))
            case list() | tuple():
                raise expected("a disk's index, or [index, parameters]", value)
            case _:
                return cls(read(value, DiskIndex))

    def to_wire(self) -> int | list[object]:
        return self.index if self.params is None else [self.index, self.params.to_wire()]


def all_or_none_changed(_: object, attribute: Checked, value: Sequence[RecreatedDisk]) -> None:
    """A validator: either every disk has parameters, or none has."""
    if len({disk.params is None for disk in value}) > 1:
        raise InvalidRequest(f"{attribute.name} must be all indices, or all [index, parameters]")
