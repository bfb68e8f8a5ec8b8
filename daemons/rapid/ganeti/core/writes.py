"""A request whose answer is a job: which opcodes it means.

Theory. Nearly all such resources are alike: an opcode, some of whose parameters the URI and the query string tell,
and the body the others. So each is a row of a table (`writetable`), and one function makes the opcode; it checks
the opcode by its class, so that a client is told what is wrong before luxid is called. Resources that are made
otherwise bring a function of their own.

Source: rapi.md 3, 7.
"""

import enum
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from common.errors import Denied, InvalidRequest
from common.opcodes.base import OpCode, read_opcode
from daemons.rapid.ganeti.core.arguments import Arguments
from daemons.rapid.ganeti.core.bodies import object_of, optional_object, renamed

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


DRY_RUN: Final[Mapping[str, Source]] = {"dry_run": flag("dry-run")}


class Body(enum.Enum):
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
    body: Body = Body.PARAMETERS
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
    if write.body is Body.IGNORED:
        return only_dependencies(body)
    given = object_of(body) if write.body is Body.REQUIRED else optional_object(body)
    given = renamed(given, write.renames)
    return write.amend(given) if write.amend else given


_VARIABLE: Final = re.compile(r"\{(\w+):\w+\}")


def _resource(path: str) -> str:
    """`instances_name_replace_disks` for `/2/instances/{name:name}/replace-disks`."""
    parts = (_VARIABLE.sub(r"\1", part) for part in path.split("/")[2:])
    return "_".join(part for part in parts if part != "disk_index").replace("-", "_")
