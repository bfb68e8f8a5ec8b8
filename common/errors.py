"""All error classes, their codes, and their names on the wire.

There is one base class. A server turns any `GantryError` into the caller's dialect, and the
client raises the same class again. An error has two names: `code` is ours, for programs and for the
mapping to HTTP; `wire_name` is Ganeti's, and Ganeti's clients raise an exception of that name.

Source: luxid.md 1.6; wconfd.md 1.5.
"""

import errno
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import attrs


class GantryError(Exception):
    """An operation failed inside the daemon."""

    code: ClassVar[str] = "internal"
    wire_name: ClassVar[str] = "GenericError"
    # name of a class that callers catch, beside others with the same code; sent along, so that `except` works there
    kind: ClassVar[str | None] = None

    def __init__(self, message: str | None = None, **fields: object) -> None:
        self.message = message or (type(self).__doc__ or "").strip().splitlines()[0]
        # JSON-able facts about the failure, sent to callers that speak JSON-RPC
        self.fields: Mapping[str, object] = fields
        super().__init__(self.message)

    def wire_args(self) -> list[object]:
        """The second element of Ganeti's `[name, args]`."""
        return [self.message]


class InternalError(GantryError):
    """a bug in the daemon; its log has the details"""


class InvalidRequest(GantryError):
    """the request is not well-formed or an argument has the wrong type"""

    code = "invalid"


class TagError(InvalidRequest):
    """a tag breaks the rules of tags"""

    wire_name = "TagError"


class UnknownMethod(InvalidRequest):
    """no such method"""


class NotFound(GantryError):
    """no such object"""

    code = "not_found"


class Conflict(GantryError):
    """the state of things does not allow this"""

    code = "conflict"


class PreconditionFailed(GantryError):
    """a thing is not what the caller takes it for; nothing was changed"""

    code = "precondition_failed"


class Denied(GantryError):
    """this user may not do that"""

    code = "denied"


class Unavailable(GantryError):
    """a daemon, a node or a disk cannot be reached at the moment; nothing was changed"""

    code = "unavailable"


class TooBusy(Unavailable):
    """this daemon has too much to do for others; try again"""

    kind = "too_busy"


class LockRuleViolation(GantryError):
    """a lock request breaks a rule of the lock table; nothing was changed"""

    code = "conflict"


class OrderViolation(LockRuleViolation):
    """a lock was asked that lies before one already held"""

    code = "order_violation"
    kind = "order_violation"


class UpgradeDeadlock(LockRuleViolation):
    """two owners that share a lock both want it exclusively; nothing was changed"""

    kind = "deadlock"


class AlreadyPending(LockRuleViolation):
    """the owner has a pending request and may not ask for anything else"""

    kind = "already_pending"


class DamagedFile(GantryError):
    """a state file cannot be read as what it should be"""


class ConfigurationError(GantryError):
    """the configuration does not allow this"""

    code = "conflict"
    wire_name = "ConfigurationError"


class ConfigVerifyError(ConfigurationError):
    """the configuration is inconsistent"""

    wire_name = "ConfigVerifyError"

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__(message, problems=list(problems))
        self.problems = tuple(problems)

    def wire_args(self) -> list[object]:
        return [self.message, list(self.problems)]


class ProgrammerError(GantryError):
    """the caller asks for what its own steps before do not allow"""

    code = "conflict"
    wire_name = "ProgrammerError"


class ReservationError(GantryError):
    """the name, address or number is taken"""

    code = "conflict"
    wire_name = "ReservationError"


class PrerequisiteError(GantryError):
    """a prerequisite of the operation is not met"""

    code = "conflict"
    wire_name = "OpPrereqError"

    def __init__(self, message: str, reason: str = "wrong_state") -> None:
        super().__init__(message, reason=reason)
        # one of Ganeti's ten codes: wrong_input, wrong_state, unknown_entity, ...
        self.reason = reason

    def wire_args(self) -> list[object]:
        return [self.message, self.reason]


def wrong_input(message: str) -> PrerequisiteError:
    """The refusal of a value that was given, whatever the state of the cluster is."""
    return PrerequisiteError(message, "wrong_input")


class ExecutionError(GantryError):
    """the operation itself failed"""

    code = "conflict"
    wire_name = "OpExecError"


class CommandFailed(ExecutionError):
    """a command ended otherwise than it was to"""

    def __init__(self, message: str, end: Mapping[str, object]) -> None:
        super().__init__(message)
        # facts about the end, JSON-able: the known keys of a result of OP_RUN_COMMAND
        self.end = end

    def wire_args(self) -> list[object]:
        return [self.message, dict(self.end)]


class OpcodeUnknown(GantryError):
    """no such opcode"""

    code = "invalid"
    wire_name = "OpCodeUnknown"


class QueueDrained(Unavailable):
    """the job queue is drained and takes no jobs; open it with 'gnt-cluster queue undrain'"""


class JobQueueFull(GantryError):
    """the job queue is full"""

    code = "unavailable"
    wire_name = "JobQueueFull"

    def wire_args(self) -> list[object]:
        # Ganeti's has none, and its clients ignore them; ours show the numbers
        return [] if self.message == type(self).__doc__ else [self.message]


class PlacesReserved(JobQueueFull):
    """the queue places that are left are reserved for users with the role 'operate'"""


class OverLimit(GantryError):
    """this user has as many as allowed"""

    code = "over_limit"
    wire_name = "OpPrereqError"

    def wire_args(self) -> list[object]:
        # Ganeti's clients show these words beside the message
        return [self.message, "temp_insufficient_resources"]


class JobLost(NotFound):
    """there is no such job"""

    wire_name = "JobLost"


class JobCanceled(GantryError):
    """the job was canceled"""

    code = "conflict"
    wire_name = "JobCanceled"


class ProtocolError(GantryError):
    """the peer does not speak our protocol"""

    code = "unavailable"


class ConnectionLost(Unavailable):
    """the daemon closed the connection before it answered"""


class SilentDaemon(Unavailable):
    """the daemon took the call and gave no answer in time; whether it acted is unknown"""


class RemoteError(GantryError):
    """A daemon replied with an error; `code`, `wire_name` and the arguments are the daemon's.

    Clients raise this for every error reply. A caller tells the cases apart by the code, as in
    `error.code == "not_found"`, because the error of a newer daemon may have no class here.
    """

    def __init__(self, message: str, *, code: str, wire_name: str, wire_args: Sequence[object] = (), **fields: object):
        super().__init__(message, **fields)
        self.code = code  # type: ignore[misc]  # set on this error, not on the class
        self.wire_name = wire_name  # type: ignore[misc]
        self._wire_args = list(wire_args)

    def wire_args(self) -> list[object]:
        return self._wire_args


class RemoteOrderViolation(RemoteError, OrderViolation):
    """wconfd refused a lock request: see `OrderViolation`"""


class RemoteUpgradeDeadlock(RemoteError, UpgradeDeadlock):
    """wconfd refused a lock request, see `UpgradeDeadlock`; the fields `holder` and `ring` are owners as on the wire"""


class RemoteAlreadyPending(RemoteError, AlreadyPending):
    """wconfd refused a lock request: see `AlreadyPending`"""


class RemoteTooBusy(RemoteError, TooBusy):
    """a daemon refused a connection or a message, see `TooBusy`; it has not acted, and may be asked again"""


_REMOTE_KINDS: Final[Mapping[str | None, type[RemoteError]]] = {
    each.kind: each for each in (RemoteOrderViolation, RemoteUpgradeDeadlock, RemoteAlreadyPending, RemoteTooBusy)
}


def remote_class(kind: object) -> type[RemoteError]:
    """Return the class for errors of this kind; the plain class if the kind is unknown."""
    return _REMOTE_KINDS.get(kind, RemoteError) if isinstance(kind, str) else RemoteError


# next steps for errors in which the path is not the point
_NEXT_STEPS: Final = {
    errno.EMFILE: "let this process have more descriptors (ulimit -n)",
    errno.ENFILE: "let the system have more (fs.file-max), or try again",
    errno.EAGAIN: "try again, or raise the limit",
    errno.ENOMEM: "try again when there is memory",
    errno.ENOSPC: "make room on its disk and try again",
    errno.EDQUOT: "make room within the quota and try again",
    errno.EROFS: "its disk is mounted read-only; mount it otherwise",
    errno.EISDIR: "name a file in it",
}


def explain_os_error(error: OSError) -> str:
    """The text for a user about a system error that one of our paths has caused."""
    if error.errno == errno.ELOOP:
        return f"'{error.filename}' leads over a link that is not followed; take the link away"
    place = f" '{error.filename}'" if error.filename else ""
    text = error.strerror or str(error)
    next_step = _NEXT_STEPS.get(error.errno or 0, "check the path and its owner")
    return f"{text[:1].lower()}{text[1:]}{place}; {next_step}"


def explain(error: Exception) -> str:
    """The text for a user: as `explain_os_error` of a system error, else the message."""
    return explain_os_error(error) if isinstance(error, OSError) else str(error)


def reason_of(error: OSError) -> str:
    """What the system says of an error, as a part of a sentence."""
    return (error.strerror or str(error)).lower()


# The codes of errors: what each means, and what to do.
#
# The daemons send a code with each error; programs decide by it, while its message is for people. The HTTP interface
# tells the same table under /3/problems, and the manual in gantry-errors(7).


@attrs.frozen
class ErrorCode:
    """What is known of all errors with a code."""

    title: str
    meaning: str
    # what to do; it says so where nothing was changed
    remedy: str


_INVALID: Final = ErrorCode(
    "The request is wrong",
    "A part of the request cannot be read, or has a value out of range; the detail names it.",
    "Nothing was changed; send the corrected request.",
)
_NOT_FOUND: Final = ErrorCode(
    "There is no such thing",
    "The job, filter rule or path does not exist, or not any more.",
    "Look for its present name in a list; 'gnt-job list' shows ended jobs, too, until they are archived and removed.",
)
_CONFLICT: Final = ErrorCode(
    "The state of things does not allow this",
    "For example, the job has ended, a rule refuses new jobs, or a filter now hits other jobs than in the dry run.",
    "Look at the present state before trying again.",
)
_PRECONDITION_FAILED: Final = ErrorCode(
    "The thing is not what the request takes it for",
    "It has another tag than the request names in If-Match, for somebody has changed it meanwhile; or it is there, or "
    "is not, against the condition of the request. `current_tag` is its tag now, null if it is not there.",
    "Nothing was changed; read it again, make the change to what it is now, and send that with its new tag.",
)
_ORDER_VIOLATION: Final = ErrorCode(
    "A lock would be taken out of order",
    "New locks must lie after those already held.",
    "Nothing was changed; free the locks that are named, or ask for all in one request.",
)
_DENIED: Final = ErrorCode(
    "This caller may not do that",
    "The user or token lacks a right, or the job belongs to another user.",
    "Nothing was changed; an administrator gives rights: [access] in gantry.toml, 'gantry user modify'.",
)
_OVER_LIMIT: Final = ErrorCode(
    "This user has as many as allowed",
    "A bound of '[limits]' for one user is reached: jobs in the queue, schedules, or their size; the detail names the "
    "bound and the user's own number.",
    "Nothing was changed; wait until some jobs have ended, or remove some. An administrator raises the bound.",
)
_UNAVAILABLE: Final = ErrorCode(
    "Something cannot be reached at the moment",
    "A daemon is away, the queue is closed or full, or there is too much to do.",
    "'gantry status' tells what is not well. Try again; the same Idempotency-Key makes sure that a job is not "
    "submitted twice, as --key of 'gnt-job run' does.",
)
_INTERNAL: Final = ErrorCode(
    "A fault in the daemon",
    "Its log has the details, under the id in the detail.",
    "'gantry logs --level error' shows them; report them with the release.",
)
# codes of all errors
ERROR_CODES: Final[Mapping[str, ErrorCode]] = {
    "invalid": _INVALID,
    "not_found": _NOT_FOUND,
    "conflict": _CONFLICT,
    "precondition_failed": _PRECONDITION_FAILED,
    "order_violation": _ORDER_VIOLATION,
    "denied": _DENIED,
    "unavailable": _UNAVAILABLE,
    "over_limit": _OVER_LIMIT,
    "internal": _INTERNAL,
}
# codes of the HTTP interface alone
HTTP_CODES: Final[Mapping[str, ErrorCode]] = {
    "unauthenticated": ErrorCode(
        "Nobody is logged in",
        "The request needs a user and a password, or a token.",
        "Nothing was changed; 'gantry user add' and 'gantry token create' make them.",
    ),
    "wrong_password": ErrorCode(
        "User or password are wrong",
        "There is no such user, or this is not the password.",
        "An administrator sets another one ('gantry user password').",
    ),
    "token_unknown": ErrorCode(
        "This is not a token of this cluster",
        "The token is of another cluster, was not copied whole, or has been forgotten long after its end.",
        "Ask for a new one ('gantry token create').",
    ),
    "token_expired": ErrorCode(
        "The token has expired",
        "The day until which it was made is over.",
        "Ask for a new one ('gantry token create').",
    ),
    "token_revoked": ErrorCode(
        "The token was revoked", "An administrator has withdrawn it.", "Ask for a new one ('gantry token create')."
    ),
    "too_many_attempts": ErrorCode(
        "Too many wrong passwords came from this address",
        "The password was not checked.",
        "Try again after the seconds of the header Retry-After.",
    ),
}
# second word of Ganeti's OpPrereqError: what kind of prerequisite is not met
PREREQUISITES: Final[Mapping[str, str]] = {
    "wrong_input": "a parameter has a value that cannot be used",
    "wrong_state": "an object is in a state that does not allow the operation",
    "unknown_entity": "an object that is named does not exist",
    "already_exists": "an object of this name exists",
    "resource_not_unique": "an address or a name is in use elsewhere",
    "insufficient_resources": "there is not enough of what it needs",
    "temp_insufficient_resources": "there is not enough of what it needs at the moment",
    "resolver_error": "the name of a machine cannot be resolved to an address",
    "environment_error": "a program or a node that it needs does not work as it should",
    "internal_error": "a check failed by a fault of its own",
}
