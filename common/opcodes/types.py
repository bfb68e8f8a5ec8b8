"""Parameter types that are narrower than Python's own, and the enumerations.

The type checker sees the annotated type; a JSON value passes its `Reader`. Values that Python
code creates are not checked again.

Source: opcodes.md 3.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Generic, TypeVar

import attrs

from common.errors import InvalidRequest
from common.objects.kinds import DiskMode, QueryKind
from common.validation import Checked
from common.wire import expected, read_mebibytes


class Secrecy(enum.Enum):
    # never logged or shown, but present in luxid's job file
    PRIVATE = "private"
    # only in memory; handed to the job process at its start
    SECRET = "secret"


# metadata of a secret parameter, which must also be optional and declared without `repr`
PRIVATE: Final = {Secrecy: Secrecy.PRIVATE}
SECRET: Final = {Secrecy: Secrecy.SECRET}


@attrs.frozen
class Reader:
    """Converts a JSON value to a parameter; the parameter is written unchanged."""

    # function that raises ValueError, made by `expected`
    read: Callable[[object], object]
    # what it takes, as JSON Schema; empty: anything
    schema: Mapping[str, object] = attrs.field(factory=dict, hash=False)


def _non_empty(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise expected("a string that is not empty", value)
    return value


def number(value: object) -> float:
    """Read a number; an integral float becomes an integer. Raises: ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise expected("number", value)
    return _plain(value)


def _plain(value: float) -> float:
    """Convert an integral float to an integer, below 64 bits: not every JSON reader takes larger integers."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**63 else value


def _whole(low: int, high: float, what: str) -> Callable[[object], int]:
    def read(value: object) -> int:
        number = round(value) if isinstance(value, int | float) and abs(value) < 2**63 else -1
        if isinstance(value, bool) or not low <= number <= high:
            raise expected(what, value)
        return number

    return read


def _json(value: object) -> object:
    """Normalize a JSON value: lists and objects are copied, integral floats become integers."""
    if isinstance(value, dict):
        return {key: _json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    return _plain(value) if isinstance(value, float) else value


def _json_object(value: object) -> object:
    if not isinstance(value, dict):
        raise expected("an object", value)
    return _json(value)


def _json_list(value: object) -> object:
    if not isinstance(value, list | tuple):
        raise expected("a list", value)
    return _json(value)


def _export_target(value: object) -> object:
    if isinstance(value, list | tuple) or (isinstance(value, str) and value):
        return _json(value)
    raise expected("a node's name or, for a remote export, a list", value)


NonEmpty = Annotated[str, Reader(_non_empty, {"type": "string", "minLength": 1})]
Whole = Annotated[int, Reader(_whole(0, 2**63, "a whole number >= 0"), {"type": "integer", "minimum": 0})]
Positive = Annotated[int, Reader(_whole(1, 2**63, "a whole number > 0"), {"type": "integer", "minimum": 1})]
DiskIndex = Annotated[
    int, Reader(_whole(0, 15, "a disk's index, 0 to 15"), {"type": "integer", "minimum": 0, "maximum": 15})
]
Number = Annotated[float, Reader(number, {"type": "number"})]
Json = Annotated[object, Reader(_json)]
JsonObject = Annotated[Mapping[str, object], Reader(_json_object, {"type": "object"})]
JsonList = Annotated[Sequence[object], Reader(_json_list, {"type": "array", "items": {}})]
ExportTarget = Annotated[str | Sequence[object], Reader(_export_target, {"type": ["string", "array"], "items": {}})]


class ListAction(enum.Enum):
    """What to do with an item of a list."""

    ADD = "add"
    ATTACH = "attach"
    REMOVE = "remove"
    DETACH = "detach"


class EvacuationMode(enum.Enum):
    PRIMARY_ONLY = "primary-only"
    SECONDARY_ONLY = "secondary-only"
    ALL = "all"


class ExportMode(enum.Enum):
    LOCAL = "local"
    REMOTE = "remote"


class FileDriver(enum.Enum):
    LOOP = "loop"
    BLKTAP = "blktap"
    BLKTAP2 = "blktap2"


class AllocatorMode(enum.Enum):
    ALLOCATE = "allocate"
    ALLOCATE_SECONDARY = "allocate-secondary"
    MULTI_ALLOCATE = "multi-allocate"
    RELOCATE = "relocate"
    NODE_EVACUATE = "node-evacuate"
    CHANGE_GROUP = "change-group"


class AllocatorDirection(enum.Enum):
    IN = "in"
    OUT = "out"


class CreationMode(enum.Enum):
    CREATE = "create"
    IMPORT = "import"
    REMOTE_IMPORT = "remote-import"


class MigrationMode(enum.Enum):
    LIVE = "live"
    NON_LIVE = "non-live"


class OutOfBandCommand(enum.Enum):
    HEALTH = "health"
    POWER_CYCLE = "power-cycle"
    POWER_OFF = "power-off"
    POWER_ON = "power-on"
    POWER_STATUS = "power-status"


class RebootType(enum.Enum):
    SOFT = "soft"
    HARD = "hard"
    FULL = "full"


class ReplaceDisksMode(enum.Enum):
    ON_PRIMARY = "replace_on_primary"
    ON_SECONDARY = "replace_on_secondary"
    NEW_SECONDARY = "replace_new_secondary"
    AUTO = "replace_auto"


class StorageType(enum.Enum):
    FILE = "file"
    SHAREDFILE = "sharedfile"
    GLUSTER = "gluster"
    LVM_PV = "lvm-pv"
    LVM_VG = "lvm-vg"
    DISKLESS = "diskless"
    BLOCKDEV = "blockdev"
    RADOS = "rados"
    EXT = "ext"


class OptionalCheck(enum.Enum):
    """A check of the cluster that the user may leave out."""

    NPLUSONE_MEM = "nplusone_mem"
    # since 3.1
    HVPARAM_ASSESSMENT = "hvparam_assessment"


_FAULTS: Final = """
    CLUSTERCFG CLUSTERCERT CLUSTERCLIENTCERT CLUSTERFILECHECK CLUSTERDANGLINGNODES CLUSTERDANGLINGINST INSTANCEBADNODE
    INSTANCEDOWN INSTANCELAYOUT INSTANCEMISSINGDISK INSTANCEFAULTYDISK INSTANCEWRONGNODE INSTANCESPLITGROUPS
    INSTANCEPOLICY INSTANCEUNSUITABLENODE INSTANCEMISSINGCFGPARAMETER NODEDRBD NODEDRBDVERSION NODEDRBDHELPER
    NODEFILECHECK NODEHOOKS NODEHV NODELVM NODEN1 NODENET NODEOS NODEORPHANINSTANCE NODEORPHANLV NODERPC NODESSH
    NODEVERSION NODESETUP NODETIME NODEOOBPATH NODEUSERSCRIPTS NODEFILESTORAGEPATHS NODEFILESTORAGEPATHUNUSABLE
    NODESHAREDFILESTORAGEPATHUNUSABLE NODEGLUSTERSTORAGEPATHUNUSABLE GROUPDIFFERENTPVSIZE EXTAGS
"""
VERIFY_ERRORS: Final = frozenset(f"E{fault}" for fault in _FAULTS.split())


def _verify_error(value: object) -> str:
    if not isinstance(value, str) or value not in VERIFY_ERRORS:
        raise expected("an error code of a verification, e.g. 'ENODENET'", value)
    return value


# error code of a verification of the cluster
VerifyError = Annotated[str, Reader(_verify_error, {"enum": sorted(VERIFY_ERRORS)})]

# luxid alone serves queries for jobs, locks and filter rules
ASKED_BY_OPCODES: Final = tuple(
    kind.value for kind in QueryKind if kind not in (QueryKind.JOB, QueryKind.LOCK, QueryKind.FILTER)
)


def _asked_by_opcodes(value: object) -> str:
    if value not in ASKED_BY_OPCODES:
        raise expected(f"one of {', '.join(ASKED_BY_OPCODES)}", value)
    return str(value)


# name of a `QueryKind` that an opcode can query
AskedKind = Annotated[str, Reader(_asked_by_opcodes, {"enum": list(ASKED_BY_OPCODES)})]


# Parameters with a structure of their own: network interfaces, disks, and changes to lists of them.
#
# Source: opcodes.md 3, "Structures".


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
class DeviceChange(Generic[P_co]):
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
    def from_wire(cls, value: object, kind: object, read: ReadPart) -> "DeviceChange[P_co]":
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


def of_one_form(_: object, attribute: Checked, value: Sequence[DeviceChange[object]]) -> None:
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
