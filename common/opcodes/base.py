"""The base class of all opcodes; reading, checking and writing one.

An opcode is data: a frozen class with typed parameters, a summary and a declaration of its
locks. A logical unit (`daemons.jobproc.units`) does its work; only job processes import units.
luxid reads an opcode strictly when it is submitted, and keeps in the job file the normal form of
`write_opcode`: defaults are filled in, unset optional parameters are left out, secrets are
replaced.

Source: opcodes.md 1 and 2; luxid.md 3.1, 9.1; DESIGN section 7.
"""

import enum
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, TypeVar

import attrs

from common.access import Role
from common.errors import GantryError, InvalidRequest
from common.lockdecl import BIG_LOCK, LockDeclaration, LockRules, Resolver, apply_rules, is_declarable
from common.locks import Lock
from common.opcodes.codec import Parameter, faults, shape_of
from common.queue.dependencies import Dependency
from common.queue.jobs import SUBMIT_PRIORITIES
from common.queue.reasons import ReasonEntry
from common.validation import Checked, says

N = TypeVar("N", bound=float | None)
O = TypeVar("O", bound="OpCode")  # noqa: E741  # an opcode

# limit of any duration of an opcode, in seconds: 31 years
LONGEST_S: Final = 1e9
# value of a secret parameter in a job file
REDACTED: Final = "<redacted>"


@says({"enum": sorted(SUBMIT_PRIORITIES.values())})
def _submit_priority(_: object, __: object, value: int) -> None:
    if value not in SUBMIT_PRIORITIES.values():
        raise InvalidRequest(f"priority must be -10 (high), 0 (normal) or 10 (low), got {value}", priority=value)


def at_least(limit: float, at_most: float = math.inf) -> Callable[[object, Checked, N], None]:
    """A validator: the parameter is a finite number from `limit` to `at_most`, or unset."""

    @says({"minimum": limit} if at_most == math.inf else {"minimum": limit, "maximum": at_most})
    def check(_: object, attribute: Checked, value: float | None) -> None:
        # this form refuses nan as well
        if value is not None and not value >= limit:
            raise InvalidRequest(f"{attribute.name} must be at least {limit:g}, got {value:g}")
        if value is not None and (value > at_most or value == math.inf):
            raise InvalidRequest(f"{attribute.name} must be at most {at_most:g}, got {value:g}")

    return check


def seconds() -> Callable[[object, Checked, N], None]:
    """A validator: the parameter is a duration in seconds of at most `LONGEST_S`, or unset."""
    return at_least(0, LONGEST_S)


def only_declarable(_: object, attribute: Checked, value: Iterable[Lock]) -> None:
    """A validator of locks that a user names: it refuses locks that are reserved for other uses."""
    for lock in value:
        if not is_declarable(lock):
            raise InvalidRequest(
                f"{attribute.name}: no job may ask for '{lock}'; the lock of the cluster is 'cluster/BGL'"
            )
        if not lock.name and not lock.is_group:
            raise InvalidRequest(f"{attribute.name}: '{lock}' names nothing; write it as '{lock}NAME'")


_WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


@attrs.frozen(kw_only=True)
class OpCode:
    """One operation with its parameters. Subclasses are frozen, keyword-only attrs classes too.

    A subclass whose name begins with `Op` is an opcode. Its id follows from the name, unless the class states one:
    `OpTestDelay` is `OP_TEST_DELAY`. Other subclasses are common bases of several opcodes.
    """

    OP_ID: ClassVar[str]
    # name of the parameter that summaries show
    SUMMARY: ClassVar[str | None] = None
    # lock rules, if they depend only on names among the parameters; else override `lock_rules`
    LOCKS: ClassVar[LockRules] = {}
    # whether it runs alone in the cluster: it holds the BGL exclusively, and no other locks
    TAKES_BIG_LOCK: ClassVar[bool] = False
    # role needed to submit it; it acts with the daemons' rights, unless its unit ensures otherwise
    SUBMIT_ROLE: ClassVar[Role] = Role.OPERATE

    # whether it only checks that it could be done
    dry_run: bool | None = None
    # Ganeti's; it changes nothing here
    debug_level: int | None = attrs.field(default=None, validator=at_least(0))
    # -10 (high), 0 (normal) or 10 (low)
    priority: int = attrs.field(default=0, validator=_submit_priority)
    # jobs that must end before it, each [id, [states]]; a negative id counts back from this job in one submission
    depends: tuple[Dependency, ...] | None = None
    # words for people, which lists show
    comment: str | None = None
    # why, from its beginning: each entry is [source, reason, time in ns]
    reason: tuple[ReasonEntry, ...] = ()

    def __init_subclass__(cls) -> None:
        # attrs makes each class twice; the second time the class has the attributes of the first
        if "OP_ID" not in vars(cls) and cls.__name__.startswith("Op"):
            cls.OP_ID = _WORD_START.sub("_", cls.__name__).upper()

    def summary_value(self) -> str | None:
        """The text in brackets after the name in lists; None for none."""
        if self.SUMMARY is None:
            return None
        value = getattr(self, self.SUMMARY)
        return str(value.value if isinstance(value, enum.Enum) else value)

    def lock_rules(self) -> LockRules:
        """The lock rules for these parameters."""
        return self.LOCKS

    def lock_declaration(self, resolve: Resolver | None = None) -> LockDeclaration:
        """Return the locks that the parameters tell; as pure as `resolve` is.

        Args:
            resolve: looks up the lock of a named object; without one, instances are locked by the names given,
                and nodes, groups and networks are unknown unless given by uuid.
        """
        return BIG_LOCK if self.TAKES_BIG_LOCK else apply_rules(self.lock_rules(), self, resolve)

    @property
    def is_resumable(self) -> bool:
        """Whether a new process of the job can go on with it in the middle, after the death of the one that ran it."""
        return False

    def secret_parameters(self) -> Mapping[str, object] | None:
        """The values that the normal form hides; the job process receives them at its start. None: there are none."""
        name = shape_of(type(self)).secret
        return getattr(self, name) if name else None


# parameters that the normal form has even when they are unset (opcodes.md 2)
_ALWAYS_WRITTEN = frozenset({"depends", "comment"})


def read_opcode(kind: type[OpCode], value: Mapping[str, object]) -> OpCode:
    """Read an opcode's JSON object; null means missing, and `depend` means `depends`.

    Raises: InvalidRequest: an unknown key, a wrong type or a value out of range; the message names all of them. Or
        `depend` and `depends` both have a value.
    """
    known = shape_of(kind).parameters
    given = {key: item for key, item in value.items() if key != "OP_ID"}
    if (depend := given.pop("depend", None)) is not None:
        if given.get("depends") is not None:
            raise InvalidRequest("'depend' and 'depends' are one parameter; write all dependencies under 'depends'")
        given["depends"] = depend
    if "reason" in given and given["reason"] is None:
        raise InvalidRequest("reason must be a list of [source, reason, time in ns], not null; it may be empty")
    try:
        # an unknown key is refused even when it is null
        read = [(key, item, known[key]) for key, item in given.items()]
        # values equal to the default need not be read, and most are: the same object, or as empty
        return kind(
            **{
                key: part.read(item, part.kind)
                for key, item, part in read
                if not (item is None or item is part.default or (not item and type(item) is part.empty))
            }
        )
    except Exception as error:
        found = _all_faults(known, given) or [error.message if isinstance(error, GantryError) else str(error)]
        raise InvalidRequest(f"invalid opcode {kind.OP_ID}: {'; '.join(found)}") from error


def _all_faults(known: Mapping[str, Parameter], given: Mapping[str, object]) -> list[str]:
    unknown = [f"unknown key {key!r}" for key in sorted(given.keys() - known.keys(), key=str)]
    missing = [
        f"required key {name!r} is missing"
        for name, parameter in known.items()
        if parameter.required and given.get(name) is None
    ]
    wrong = [
        fault
        for name, value in given.items()
        if name in known and value is not None
        for fault in faults(known[name], value)
    ]
    return unknown + missing + wrong


def write_opcode(op: OpCode) -> dict[str, object]:
    """Return the opcode's normal form for job files; values of secret parameters are `<redacted>`."""
    shape = shape_of(type(op))
    fields: dict[str, object] = {"OP_ID": op.OP_ID}
    for name, parameter in shape.parameters.items():
        value = getattr(op, name)
        if value is not None:
            fields[name] = parameter.write(value)
        elif name in _ALWAYS_WRITTEN:
            fields[name] = None
    if shape.secret in fields:
        fields[shape.secret] = dict.fromkeys(op.secret_parameters() or (), REDACTED)
    return fields


def without_unset(fields: Mapping[str, object]) -> dict[str, object]:
    """Return an opcode's JSON object in normal form: Ganeti's job processes write unset parameters as null."""
    return {name: value for name, value in fields.items() if value is not None or name in _ALWAYS_WRITTEN}


def with_secrets(op: O, secrets: Mapping[str, object]) -> O:
    """Return the opcode as it was before its normal form was written.

    Args:
        secrets: the result of `secret_parameters`.
    """
    change: dict[str, Any] = {name: secrets} if (name := shape_of(type(op)).secret) else {}
    return attrs.evolve(op, **change)


def summary(op: OpCode) -> str:
    """`TEST_DELAY(1.0)`: the id without OP_, and the most telling parameter."""
    name = op.OP_ID.removeprefix("OP_")
    value = op.summary_value()
    return name if value is None else f"{name}({value})"
