"""A request whose answer is a job: which opcodes it means.

Theory. Nearly all such resources are alike: an opcode, some of whose parameters the URI and the query string tell,
and the body the others. So each is a row of a table (`writetable`), and one function makes the opcode; it checks
the opcode by its class, so that a client is told what is wrong before luxid is called. Resources that are made
otherwise bring a function of their own.

Source: rapi.md 3, 7.
"""

import enum
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from common.errors import Denied, InvalidRequest
from common.objects.kinds import TagKind
from common.opcodes.base import OpCode, read_opcode
from common.opcodes.cluster import OpClusterRedistConf, OpClusterSetParams
from common.opcodes.group import OpGroupAdd, OpGroupAssignNodes, OpGroupRemove, OpGroupRename, OpGroupSetParams
from common.opcodes.instance import (
    OpBackupExport,
    OpBackupPrepare,
    OpBackupRemove,
    OpInstanceActivateDisks,
    OpInstanceCreate,
    OpInstanceDeactivateDisks,
    OpInstanceFailover,
    OpInstanceGrowDisk,
    OpInstanceMigrate,
    OpInstanceMultiAlloc,
    OpInstanceQueryData,
    OpInstanceReboot,
    OpInstanceRecreateDisks,
    OpInstanceReinstall,
    OpInstanceRemove,
    OpInstanceRename,
    OpInstanceReplaceDisks,
    OpInstanceSetParams,
    OpInstanceShutdown,
    OpInstanceStartup,
)
from common.opcodes.network import (
    OpNetworkAdd,
    OpNetworkConnect,
    OpNetworkDisconnect,
    OpNetworkRemove,
    OpNetworkRename,
    OpNetworkSetParams,
)
from common.opcodes.node import (
    OpNodeEvacuate,
    OpNodeMigrate,
    OpNodeModifyStorage,
    OpNodePowercycle,
    OpNodeQueryStorage,
    OpNodeSetParams,
    OpRepairNodeStorage,
)
from common.opcodes.tags import OpTagsDel, OpTagsSet
from daemons.rapid.ganeti.core.reads import (
    Arguments,
    check_names,
    member,
    object_of,
    optional_object,
    renamed,
    word_for,
)

# an opcode as luxid receives it
OpInput = Mapping[str, object]
WRITE: Final = ("write",)


@attrs.frozen
class Asking:
    """What a client has sent."""

    # variables of the path
    names: Mapping[str, str]
    arguments: Arguments
    # JSON; None: there is none
    body: object
    now_ns: int

    @property
    def name(self) -> str:
        return self.names["name"]


# finds a parameter of an opcode in the URI or the query string
Source = Callable[[Asking], object]


def name(asking: Asking) -> object:
    """The object that the URI names."""
    return asking.name


def named(asking: Asking) -> object:
    """A list of the object that the URI names."""
    return [asking.name]


def constant(value: object) -> Source:
    return lambda _: value


@attrs.frozen
class FromQuery:
    """A source that reads a parameter of the query string."""

    parameter: str
    _read: Callable[[Arguments], object]
    is_required: bool = False

    def __call__(self, asking: Asking) -> object:
        return self._read(asking.arguments)


def flag(parameter: str) -> Source:
    return FromQuery(parameter, lambda arguments: arguments.flag(parameter))


def text(parameter: str, default: str | None = None) -> Source:
    return FromQuery(parameter, lambda arguments: arguments.text(parameter) or default)


def required(parameter: str) -> Source:
    return FromQuery(parameter, lambda arguments: arguments.required(parameter), is_required=True)


def flags(*parameters: str) -> Mapping[str, Source]:
    """Flags of the query string that the opcode has under the same names, with underscores for hyphens."""
    return {each.replace("-", "_"): flag(each) for each in parameters}


DRY_RUN: Final = flags("dry-run")


class BodyKind(enum.Enum):
    """What a resource takes from the body."""

    # parameters of the opcode; it may be left out
    PARAMETERS = "parameters"
    REQUIRED = "required"
    # only what the job depends on
    IGNORED = "ignored"


@attrs.frozen
class Write:
    """A resource and a verb whose answer is a job."""

    verb: str
    # `{name:name}` and the like are its variables
    path: str
    opcode: type[OpCode]
    # parameters that the URI and the query string tell
    fixed: Mapping[str, Source] = attrs.field(factory=dict)
    body: BodyKind = BodyKind.PARAMETERS
    # old names of parameters in the body
    renames: Mapping[str, str] = attrs.field(factory=dict)
    # parameters that may not be given, neither in the body nor in the query string
    forbidden: tuple[str, ...] = ()
    # changes the parameters of the body before they are checked
    amend: Callable[[dict[str, object]], dict[str, object]] | None = None
    # makes the opcodes instead of `one_opcode`
    make: "Callable[[Write, Asking], Sequence[OpInput]] | None" = None
    # more parameters of the query string, which `amend` or `make` read
    more_parameters: tuple[str, ...] = ()
    # name of the resource in the reason trail; "": follows from the path
    resource: str = ""
    ganeti_rights: tuple[str, ...] = WRITE

    @property
    def parameters(self) -> Mapping[str, bool]:
        """The parameters of the query string, each with whether it must be given."""
        found = {each.parameter: each.is_required for each in self.fixed.values() if isinstance(each, FromQuery)}
        return {**found, **dict.fromkeys((*self.more_parameters, "reason"), False)}

    def opcodes(self, asking: Asking) -> Sequence[OpInput]:
        """The opcodes of the job.

        Raises: InvalidRequest, OpcodeUnknown: a parameter is unknown, missing or wrong. Denied: it may not be given.
        """
        self._check_forbidden(asking)
        return self.make(self, asking) if self.make else [one_opcode(self, asking)]

    def trail(self, asking: Asking) -> list[list[object]]:
        """The reason trail that the interface adds, oldest first."""
        reason = asking.arguments.text("reason")
        own: list[list[object]] = [["gnt:user", reason, asking.now_ns]] if reason else []
        resource = self.resource or _resource(self.path)
        return [*own, [f"gnt:library:rlib2:{resource}", "", asking.now_ns]]

    def _check_forbidden(self, asking: Asking) -> None:
        given = asking.body if isinstance(asking.body, dict) else {}
        for parameter in self.forbidden:
            if parameter in given or parameter in asking.arguments:
                raise Denied(f"'{parameter}' may not be changed over HTTP; use the command line on the master")


def one_opcode(write: Write, asking: Asking) -> OpInput:
    """The opcode of a row. Raises: as `Write.opcodes`."""
    return opcode_of(write, asking, _from_body(write, asking.body))


def opcode_of(write: Write, asking: Asking, given: Mapping[str, object], kind: type[OpCode] | None = None) -> OpInput:
    """An opcode with these parameters and those that the URI tells.

    Args: kind: None: the one of the row.
    Raises: InvalidRequest: one is unknown, missing or wrong, or given in two places.
    """
    fixed = {parameter: source(asking) for parameter, source in write.fixed.items()}
    return checked(kind or write.opcode, given, {**fixed, "reason": write.trail(asking)})


def checked(kind: type[OpCode], given: Mapping[str, object], fixed: Mapping[str, object]) -> OpInput:
    """An opcode with the parameters `given` by the client and those that are `fixed`.

    Raises: InvalidRequest: one is unknown, missing or wrong, or fixed.
    """
    clash = sorted(given.keys() & {*fixed, "OP_ID"})
    if clash:
        names = ", ".join(map(repr, clash))
        raise InvalidRequest(f"the body must not have {names}: the URI and the query string tell that")
    op = {**given, **fixed, "OP_ID": kind.OP_ID}
    read_opcode(kind, op)
    return op


def only_dependencies(body: object) -> dict[str, object]:
    """What counts of a body that is ignored otherwise."""
    return {"depends": body["depends"]} if isinstance(body, dict) and "depends" in body else {}


def _from_body(write: Write, body: object) -> dict[str, object]:
    if write.body is BodyKind.IGNORED:
        return only_dependencies(body)
    given = object_of(body) if write.body is BodyKind.REQUIRED else optional_object(body)
    given = renamed(given, write.renames)
    return write.amend(given) if write.amend else given


_VARIABLE: Final = re.compile(r"\{(\w+):\w+\}")


def _resource(path: str) -> str:
    """`instances_name_replace_disks` for `/2/instances/{name:name}/replace-disks`."""
    parts = (_VARIABLE.sub(r"\1", part) for part in path.split("/")[2:])
    return "_".join(part for part in parts if part != "disk_index").replace("-", "_")


# Jobs on instances whose parameters are not just those of the body.
#
# Source: rapi.md 6.9, 7.


_VERSION: Final = "__version__"
_CREATION_NAMES: Final = {"name": "instance_name", "os": "os_type"}
# parameters in the query string, as old clients have it
OLD_REPLACE: Final = ("remote_node", "mode", "disks", "iallocator")
OLD_REINSTALL: Final = ("os", "nostartup")


def with_usb_devices(given: dict[str, object]) -> dict[str, object]:
    """The parameters with commas between the USB devices."""
    hvparams = given.get("hvparams")
    if not isinstance(hvparams, dict) or not isinstance(hvparams.get("usb_devices"), str):
        return given
    return {**given, "hvparams": {**hvparams, "usb_devices": hvparams["usb_devices"].replace(" ", ",")}}


def create(write: Write, asking: Asking) -> Sequence[OpInput]:
    """Raises: InvalidRequest: the body is of another version, or a parameter is wrong."""
    given = dict(object_of(asking.body))
    version = given.pop(_VERSION, 0)
    if type(version) is not int or version != 1:
        raise InvalidRequest(f"'{_VERSION}' in the body must be 1, got {version!r:.60}")
    return [opcode_of(write, asking, with_usb_devices(renamed(given, _CREATION_NAMES)))]


def create_many(write: Write, asking: Asking) -> Sequence[OpInput]:
    """Each instance is the body of a creation, without a version. Raises: InvalidRequest: one is wrong."""
    given = object_of(asking.body)
    if "instances" not in given:
        raise InvalidRequest("the body lacks 'instances', a list of what to create")
    instances = [_creation(each) for each in member(given, "instances", list, [])]
    return [opcode_of(write, asking, {**given, "instances": instances})]


def _creation(given: object) -> OpInput:
    if not isinstance(given, dict):
        raise InvalidRequest(f"each of 'instances' must be an object, got {word_for(given)}")
    return checked(OpInstanceCreate, with_usb_devices(renamed(given, _CREATION_NAMES)), {})


def reinstall(write: Write, asking: Asking) -> Sequence[OpInput]:
    """Stop the instance, install it and start it again, in one job.

    Raises: InvalidRequest: parameters are in the body and the query string, or wrong.
    """
    given = _from_one_place(asking, OLD_REINSTALL, lambda: _old_reinstall(asking))
    check_names(given, ("os", "start", "osparams", "depends"))
    installed = {"osparams": given.get("osparams")}
    if given.get("os") is not None:
        installed["os_type"] = given["os"]
    depends = {"depends": given["depends"]} if "depends" in given else {}
    ops = [
        opcode_of(write, asking, depends, OpInstanceShutdown),
        opcode_of(write, asking, installed, OpInstanceReinstall),
    ]
    if member(given, "start", bool, True):
        ops.append(opcode_of(write, asking, {}, OpInstanceStartup))
    return ops


def _old_reinstall(asking: Asking) -> dict[str, object]:
    return {"os": asking.arguments.text("os"), "start": not asking.arguments.flag("nostartup")}


def replace_disks(write: Write, asking: Asking) -> Sequence[OpInput]:
    """Raises: InvalidRequest: parameters are in the body and the query string, or wrong."""
    given = _from_one_place(asking, OLD_REPLACE, lambda: {each: asking.arguments.text(each) for each in OLD_REPLACE})
    return [opcode_of(write, asking, {**given, "disks": _disks(given.get("disks"))})]


def _disks(value: object) -> object:
    """Indices, also of a text like `0,1`."""
    if not isinstance(value, str):
        return value or []
    try:
        return [int(part) for part in value.split(",")]
    except ValueError:
        raise InvalidRequest(f"'disks' must be numbers with commas between them, got {value!r:.60}") from None


def _from_one_place(
    asking: Asking, old: Sequence[str], read_old: Callable[[], Mapping[str, object]]
) -> Mapping[str, object]:
    """The parameters of the body or, as old clients have it, of the query string."""
    given = optional_object(asking.body)
    if not any(each in asking.arguments for each in old):
        return given
    if given:
        raise InvalidRequest("parameters are in the body or in the query string, not in both")
    return read_old()


# Jobs on nodes whose parameters are not just those of the body.
#
# Source: rapi.md 6.6, 7.


_ROLES: Final[Mapping[str, Mapping[str, bool]]] = {
    "regular": {"master_candidate": False, "offline": False, "drained": False},
    "master-candidate": {"master_candidate": True},
    "drained": {"drained": True},
    "offline": {"offline": True},
}
# what the letter of a node's role means
ROLE_WORDS: Final[Mapping[str, str]] = {
    "M": "master",
    "C": "master-candidate",
    "D": "drained",
    "O": "offline",
    "R": "regular",
}
_MODES: Final = {True: "live", False: "non-live"}


def set_role(write: Write, asking: Asking) -> Sequence[OpInput]:
    """The body is the role. Raises: InvalidRequest: it is none that a node can be given."""
    role = asking.body
    if not isinstance(role, str):
        raise InvalidRequest(f"the body must be a role as a JSON string, got {word_for(role)}")
    if role not in _ROLES:
        raise InvalidRequest(f"a node's role is {', '.join(_ROLES)}; got {role!r:.60}")
    return [opcode_of(write, asking, _ROLES[role])]


def migrate(write: Write, asking: Asking) -> Sequence[OpInput]:
    """The parameters are in the body or, as old clients have it, in the query string.

    Raises: InvalidRequest: in both, or `live` and `mode`.
    """
    arguments = asking.arguments
    if "live" not in arguments and "mode" not in arguments:
        return [one_opcode(write, asking)]
    if "live" in arguments and "mode" in arguments:
        raise InvalidRequest("the query string has both 'live' and 'mode', which are the same; leave one out")
    if optional_object(asking.body):
        raise InvalidRequest("parameters are in the body or in the query string, not in both")
    mode = _MODES[arguments.flag("live")] if "live" in arguments else arguments.text("mode")
    return [opcode_of(write, asking, {"mode": mode})]


def storage_changes(arguments: Arguments) -> dict[str, object]:
    """What to change of a storage unit."""
    return {"allocatable": arguments.flag("allocatable")} if "allocatable" in arguments else {}


# The part about instances of the table of the resources whose answer is a job.
#
# Source: rapi.md 5 to 7.


AN_INSTANCE: Final = "/2/instances/{name:name}"
_INSTANCE: Final[Mapping[str, Source]] = {"instance_name": name}


def _disk(asking: Asking) -> object:
    return int(asking.names["disk_index"])


_ON_INSTANCES: Final = (
    Write("POST", "/2/instances", OpInstanceCreate, DRY_RUN, make=create),
    Write("POST", "/2/instances-multi-alloc", OpInstanceMultiAlloc, DRY_RUN, make=create_many),
    Write(
        "DELETE",
        AN_INSTANCE,
        OpInstanceRemove,
        {**_INSTANCE, **DRY_RUN, "ignore_failures": constant(False)},
    ),
    Write(
        "GET",
        f"{AN_INSTANCE}/info",
        OpInstanceQueryData,
        {**flags("static"), "instances": named},
        body=BodyKind.IGNORED,
        ganeti_rights=(),
    ),
    Write(
        "POST",
        f"{AN_INSTANCE}/reboot",
        OpInstanceReboot,
        {**_INSTANCE, **DRY_RUN, "reboot_type": text("type", "hard"), **flags("ignore_secondaries")},
    ),
    Write(
        "PUT",
        f"{AN_INSTANCE}/startup",
        OpInstanceStartup,
        {**_INSTANCE, **flags("dry-run", "force", "no_remember")},
        body=BodyKind.IGNORED,
    ),
    Write("PUT", f"{AN_INSTANCE}/shutdown", OpInstanceShutdown, {**_INSTANCE, **flags("dry-run", "no_remember")}),
    Write(
        "POST",
        f"{AN_INSTANCE}/reinstall",
        OpInstanceReinstall,
        _INSTANCE,
        make=reinstall,
        more_parameters=OLD_REINSTALL,
    ),
    Write("PUT", f"{AN_INSTANCE}/migrate", OpInstanceMigrate, _INSTANCE),
    Write("PUT", f"{AN_INSTANCE}/failover", OpInstanceFailover, _INSTANCE),
    Write("PUT", f"{AN_INSTANCE}/rename", OpInstanceRename, _INSTANCE),
    Write(
        "PUT",
        f"{AN_INSTANCE}/modify",
        OpInstanceSetParams,
        _INSTANCE,
        body=BodyKind.REQUIRED,
        renames={"custom_beparams": "beparams", "custom_hvparams": "hvparams"},
        amend=with_usb_devices,
    ),
)
_ON_DISKS: Final = (
    Write(
        "POST",
        f"{AN_INSTANCE}/replace-disks",
        OpInstanceReplaceDisks,
        _INSTANCE,
        make=replace_disks,
        more_parameters=OLD_REPLACE,
    ),
    Write(
        "PUT",
        f"{AN_INSTANCE}/activate-disks",
        OpInstanceActivateDisks,
        {**_INSTANCE, **flags("ignore_size")},
        body=BodyKind.IGNORED,
    ),
    Write(
        "PUT",
        f"{AN_INSTANCE}/deactivate-disks",
        OpInstanceDeactivateDisks,
        {**_INSTANCE, **flags("force")},
        body=BodyKind.IGNORED,
    ),
    Write("POST", f"{AN_INSTANCE}/recreate-disks", OpInstanceRecreateDisks, _INSTANCE),
    Write(
        "POST",
        f"{AN_INSTANCE}/disk/{{disk_index:number}}/grow",
        OpInstanceGrowDisk,
        {**_INSTANCE, "disk": _disk},
    ),
)
_EXPORTS: Final = (
    Write(
        "PUT",
        f"{AN_INSTANCE}/prepare-export",
        OpBackupPrepare,
        {**_INSTANCE, "mode": text("mode")},
        body=BodyKind.IGNORED,
    ),
    Write(
        "PUT",
        f"{AN_INSTANCE}/export",
        OpBackupExport,
        _INSTANCE,
        renames={"destination": "target_node"},
    ),
    Write("DELETE", f"{AN_INSTANCE}/export", OpBackupRemove, _INSTANCE),
)
ON_INSTANCES: Final = (*_ON_INSTANCES, *_ON_DISKS, *_EXPORTS)


# The table of the resources whose answer is a job.
#
# Source: rapi.md 5 to 7.


_A_NODE: Final = "/2/nodes/{name:name}"
_A_GROUP: Final = "/2/groups/{name:name}"
_A_NETWORK: Final = "/2/networks/{name:name}"
# path of the object that the tags belong to; the cluster has none of its own
TAGGED: Final[Mapping[str, TagKind]] = {
    "/2": TagKind.CLUSTER,
    _A_NODE: TagKind.NODE,
    _A_GROUP: TagKind.NODEGROUP,
    _A_NETWORK: TagKind.NETWORK,
    AN_INSTANCE: TagKind.INSTANCE,
}
_NODE: Final[Mapping[str, Source]] = {"node_name": name}
_GROUP: Final[Mapping[str, Source]] = {"group_name": name}
_NETWORK: Final[Mapping[str, Source]] = {"network_name": name}


def _output_fields(arguments: Arguments) -> object:
    arguments.required("output_fields")
    return arguments.words("output_fields")


def _tags(arguments: Arguments) -> object:
    arguments.required("tag")
    return arguments.texts("tag")


_CLUSTER: Final = (
    Write("PUT", "/2/redistribute-config", OpClusterRedistConf, resource="redist_config"),
    Write(
        "PUT",
        "/2/modify",
        OpClusterSetParams,
        body=BodyKind.REQUIRED,
        forbidden=("compression_tools",),
        resource="cluster_modify",
    ),
)
_ON_NODES: Final = (
    Write("PUT", f"{_A_NODE}/role", OpNodeSetParams, {**_NODE, **flags("force", "auto-promote")}, make=set_role),
    Write("POST", f"{_A_NODE}/modify", OpNodeSetParams, _NODE),
    Write("POST", f"{_A_NODE}/powercycle", OpNodePowercycle, {**_NODE, **flags("force")}),
    Write("POST", f"{_A_NODE}/evacuate", OpNodeEvacuate, {**_NODE, **DRY_RUN}),
    Write("POST", f"{_A_NODE}/migrate", OpNodeMigrate, _NODE, make=migrate, more_parameters=("live", "mode")),
    Write(
        "GET",
        f"{_A_NODE}/storage",
        OpNodeQueryStorage,
        {
            "nodes": named,
            "storage_type": text("storage_type"),
            "output_fields": FromQuery("output_fields", _output_fields, is_required=True),
        },
        body=BodyKind.IGNORED,
    ),
    Write(
        "PUT",
        f"{_A_NODE}/storage/modify",
        OpNodeModifyStorage,
        {
            **_NODE,
            "storage_type": required("storage_type"),
            "name": required("name"),
            "changes": FromQuery("allocatable", storage_changes),
        },
        body=BodyKind.IGNORED,
    ),
    Write(
        "PUT",
        f"{_A_NODE}/storage/repair",
        OpRepairNodeStorage,
        {**_NODE, "storage_type": required("storage_type"), "name": required("name")},
        body=BodyKind.IGNORED,
    ),
)
_ON_GROUPS: Final = (
    Write("POST", "/2/groups", OpGroupAdd, DRY_RUN, renames={"name": "group_name"}),
    Write("DELETE", _A_GROUP, OpGroupRemove, {**_GROUP, **DRY_RUN}, body=BodyKind.IGNORED),
    Write(
        "PUT",
        f"{_A_GROUP}/modify",
        OpGroupSetParams,
        _GROUP,
        renames={
            "custom_ndparams": "ndparams",
            "custom_ipolicy": "ipolicy",
            "custom_diskparams": "diskparams",
        },
    ),
    Write("PUT", f"{_A_GROUP}/rename", OpGroupRename, {**_GROUP, **DRY_RUN}),
    Write("PUT", f"{_A_GROUP}/assign-nodes", OpGroupAssignNodes, {**_GROUP, **flags("dry-run", "force")}),
)
_ON_NETWORKS: Final = (
    Write("POST", "/2/networks", OpNetworkAdd, DRY_RUN, renames={"name": "network_name"}),
    Write("DELETE", _A_NETWORK, OpNetworkRemove, {**_NETWORK, **DRY_RUN}),
    Write("PUT", f"{_A_NETWORK}/connect", OpNetworkConnect, {**_NETWORK, **DRY_RUN}),
    Write("PUT", f"{_A_NETWORK}/disconnect", OpNetworkDisconnect, {**_NETWORK, **DRY_RUN}),
    Write("PUT", f"{_A_NETWORK}/modify", OpNetworkSetParams, _NETWORK),
    Write("PUT", f"{_A_NETWORK}/rename", OpNetworkRename, {**_NETWORK, **DRY_RUN}),
)


def _tag_writes() -> Iterator[Write]:
    for path, kind in TAGGED.items():
        fixed: dict[str, Source] = {
            "kind": constant(kind.value),
            "name": constant(None) if kind is TagKind.CLUSTER else name,
            "tags": FromQuery("tag", _tags, is_required=True),
            **DRY_RUN,
        }
        yield Write("PUT", f"{path}/tags", OpTagsSet, fixed, body=BodyKind.IGNORED)
        yield Write("DELETE", f"{path}/tags", OpTagsDel, fixed, body=BodyKind.IGNORED)


WRITES: Final = (
    *_CLUSTER,
    *_tag_writes(),
    *_ON_NODES,
    *_ON_GROUPS,
    *_ON_NETWORKS,
    *ON_INSTANCES,
)
