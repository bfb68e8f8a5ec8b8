"""OP_RUN_COMMAND: run any program as a job, here or on a node."""

import enum
import re
import shlex
from collections.abc import Mapping
from typing import ClassVar, Final

import attrs

from common.access import Role
from common.commands.retryrules import (
    DELAY_S,
    FACTOR,
    LONGEST_PAUSE_S,
    MOST_FACTOR,
    MOST_RETRIES,
    RetryPolicy,
    read_rules,
)
from common.commands.spec import ULIMITS
from common.errors import InvalidRequest
from common.featuresettings import GIVE_UP_S
from common.lockdecl import LevelDeclaration, LockDeclaration, Resolver, Scope, declare
from common.locks import Lock, LockLevel, LockMode, group_lock, member_lock
from common.opcodes.base import OpCode, at_least, only_declarable, seconds
from common.opcodes.types import Whole
from common.validation import Checked, says

# characters of a user's name; more than useradd allows
LONGEST_USER: Final = 256
# characters of a host's name
LONGEST_NODE: Final = 253
LEAST_MEMORY: Final = 2**20
# minimum that the kernel takes, for a period of 100 ms
LEAST_CPUS: Final = 0.01
MOST_CPUS: Final = 8192
# levels whose locks have the names of nodes
_NODE_LEVELS: Final = (LockLevel.NODE, LockLevel.NODE_RES)
# what a shell may read otherwise
_QUOTED: Final = re.compile(r"[^\w@%+=:,./-]", re.ASCII)


class OnFailover(enum.Enum):
    """The treatment of a command that runs on a node while another node becomes the master."""

    # it runs on, and the new master follows it to its end
    LEAVE = "leave"
    # it is ended, and its job fails
    KILL = "kill"


@says({"minItems": 1})
def _some(_: object, attribute: Checked, value: tuple[str, ...]) -> None:
    if not value or not value[0]:
        raise InvalidRequest(f"{attribute.name} must name a program")
    if any("\0" in word for word in value):
        raise InvalidRequest(f"{attribute.name} must not contain a zero byte")


def _environment(_: object, attribute: Checked, value: Mapping[str, str]) -> None:
    for name, text in value.items():
        if not name or "=" in name or "\0" in name:
            raise InvalidRequest(
                f"{attribute.name}: {name!r:.60} names no variable; it may hold neither '=' nor a zero byte"
            )
        if "\0" in text:
            raise InvalidRequest(f"{attribute.name}: the value of {name!r:.60} must not contain a zero byte")


@says({"minLength": 1, "maxLength": LONGEST_USER})
def _user_name(_: object, attribute: Checked, value: str | None) -> None:
    if value is not None and not (value and value.isprintable() and len(value) <= LONGEST_USER):
        raise InvalidRequest(
            f"{attribute.name} must be a user's name of 1 to {LONGEST_USER} printable characters, got {value!r:.60}"
        )


@says({"pattern": "^/"})
def _absolute(_: object, attribute: Checked, value: str | None) -> None:
    if value is not None and (not value.startswith("/") or "\0" in value):
        raise InvalidRequest(f"{attribute.name} must be an absolute path without zero bytes, got {value!r:.60}")


@says({"minLength": 1, "maxLength": LONGEST_NODE})
def _node_name(_: object, attribute: Checked, value: str | None) -> None:
    if value is not None and not (value and value.isprintable() and len(value) <= LONGEST_NODE and "/" not in value):
        raise InvalidRequest(f"{attribute.name} must be the name of a node, got {value!r:.60}")


@says({"items": {"type": "integer", "minimum": 0, "maximum": 255}})
def _exit_codes(_: object, attribute: Checked, value: tuple[int, ...]) -> None:
    wrong = [code for code in value if not 0 <= code <= 255]
    if wrong:
        raise InvalidRequest(f"{attribute.name}: a command ends with a code from 0 to 255, not with {wrong[0]}")


@says({"propertyNames": {"enum": list(ULIMITS)}})
def _ulimits(_: object, attribute: Checked, value: Mapping[str, tuple[int, ...]] | None) -> None:
    for name, pair in (value or {}).items():
        if name not in ULIMITS:
            raise InvalidRequest(f"{attribute.name}: there is no limit {name!r:.40}; they are {', '.join(ULIMITS)}")
        soft, hard = (*pair, *pair)[:2] if len(pair) in (1, 2) else (-2, -2)
        if not (-1 <= soft < 2**63 and -1 <= hard < 2**63) or (hard != -1 and not 0 <= soft <= hard):
            raise InvalidRequest(
                f"{attribute.name}: {name} takes a soft and a hard limit, soft <= hard, -1 for none; got {list(pair)}"
            )


@says({"minimum": -20, "maximum": 19})
def _niceness(_: object, attribute: Checked, value: int | None) -> None:
    if value is not None and not -20 <= value <= 19:
        raise InvalidRequest(f"{attribute.name} must be from -20 to 19, got {value}")


@says({"minimum": LEAST_CPUS, "maximum": MOST_CPUS})
def _cpus(_: object, attribute: Checked, value: float | None) -> None:
    if value is not None and not MOST_CPUS >= value >= LEAST_CPUS:
        raise InvalidRequest(f"{attribute.name} must be from {LEAST_CPUS:g} to {MOST_CPUS}, got {value:g}")


@says({"minimum": LEAST_MEMORY, "maximum": 2**63 - 1})
def _memory(_: object, attribute: Checked, value: int | None) -> None:
    if value is not None and not LEAST_MEMORY <= value < 2**63:
        raise InvalidRequest(f"{attribute.name} must be at least {LEAST_MEMORY} bytes (1 MiB), got {value}")


def _failures(_: object, attribute: Checked, value: tuple[str, ...] | None) -> None:
    try:
        read_rules(value or ())
    except InvalidRequest as error:
        raise InvalidRequest(f"{attribute.name}: {error.message}") from None


def joined(argv: tuple[str, ...]) -> str:
    """Return what `shlex.join` does; it looks at each word, which is needed only if one of them is to be quoted."""
    is_plain = all(argv) and _QUOTED.search("".join(argv)) is None
    return " ".join(argv) if is_plain else shlex.join(argv)


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


@attrs.frozen(kw_only=True)
class OpRunCommand(OpCode):
    """Run a program under locks; it succeeds if its exit code is one of the expected ones."""

    SUBMIT_ROLE: ClassVar[Role] = Role.SUBMIT

    # program and its arguments; without a shell, unless `shell` is set: then the words are joined by blanks
    argv: tuple[str, ...] = attrs.field(validator=_some)
    shell: bool = False
    # variables added to the defined environment (`common.commands.surroundings`)
    env: Mapping[str, str] = attrs.field(factory=dict, validator=_environment)
    # absolute path; default "/"
    cwd: str | None = attrs.field(default=None, validator=_absolute)
    # seconds; then the whole group gets TERM, and KILL after a grace time
    timeout: float | None = attrs.field(default=None, validator=seconds())
    # name of the user to run as; needs a launcher, or daemons that run as root
    user: str | None = attrs.field(default=None, validator=_user_name)
    # text for standard input; both this and `stdin_path` unset: empty input
    stdin_text: str | None = None
    # absolute path; opened with the rights of the command's user when it starts
    stdin_path: str | None = attrs.field(default=None, validator=_absolute)
    # whether standard error is kept separately from the output
    stderr_apart: bool | None = None
    exit_codes: tuple[int, ...] = attrs.field(default=(0,), validator=_exit_codes)
    locks: Mapping[Lock, LockMode] = attrs.field(factory=dict, validator=only_declarable)
    # bytes of all its processes together; a command that needs more is killed
    memory: int | None = attrs.field(default=None, validator=_memory)
    # processors that it may use at once; 0.5: half of one
    cpus: float | None = attrs.field(default=None, validator=_cpus)
    # niceness added to that of the job process; less than 0 only as root
    nice: int | None = attrs.field(default=None, validator=_niceness)
    # name -> [soft, hard] or [both]; -1: no limit
    ulimits: Mapping[str, tuple[int, ...]] | None = attrs.field(default=None, validator=_ulimits)
    # whether background processes of the program run on after its end
    detach: bool = False
    # as `detach`, and the locks are kept until the last of these processes has ended
    keep_locks: bool = False
    # name of the node to run it on, whose lock it then holds, shared; None: the master, without such a lock
    node: str | None = attrs.field(default=None, validator=_node_name)
    # only with a node; default: "leave"
    on_failover: OnFailover | None = None
    # number of further tries if it fails; each begins after the last process of the one before has ended
    retries: int | None = attrs.field(default=None, validator=at_least(0, MOST_RETRIES))
    # seconds before the first of them; default 30. All pauses vary by a fifth
    retry_delay: float | None = attrs.field(default=None, validator=seconds())
    # how many times longer each later pause is; default 2
    retry_factor: float | None = attrs.field(default=None, validator=at_least(1, MOST_FACTOR))
    # limit of a pause, in seconds; default 600, or `retry_delay` if that is more
    retry_max: float | None = attrs.field(default=None, validator=seconds())
    # failures after which it is tried again, such as exit=75, exit=64-78, signal=KILL, timeout, memory; default: any
    retry_on: tuple[str, ...] | None = attrs.field(default=None, validator=_failures)
    # failures after which it is not, whatever `retry_on` says
    fail_on: tuple[str, ...] | None = attrs.field(default=None, validator=_failures)
    # whether it may be run again after a try of which nobody knows how far it came, as its machine or process was lost
    rerunnable: bool | None = None

    def __attrs_post_init__(self) -> None:
        if self.stdin_text is not None and self.stdin_path is not None:
            raise InvalidRequest("a command reads either stdin_text or stdin_path; give one of them")
        if self.on_failover is not None and self.node is None:
            raise InvalidRequest("on_failover is for commands on a node; name the node, or leave it out")
        self._check_retries()

    def _check_retries(self) -> None:
        terms = ("retry_delay", "retry_factor", "retry_max", "retry_on", "fail_on")
        given = [name for name in terms if getattr(self, name) is not None]
        if given and self.retries is None:
            raise InvalidRequest(f"{given[0]} is for commands with retries; say how many, or leave it out")
        delay_s, longest_s = self.retry_delay, self.retry_max
        if delay_s is not None and longest_s is not None and delay_s > longest_s:
            raise InvalidRequest(f"retry_delay must be at most retry_max, got {delay_s:g} and {longest_s:g}")
        if self.detach and (self.retries or self.rerunnable):
            name = "retries" if self.retries else "rerunnable"
            raise InvalidRequest(
                f"{name} and detach exclude each other: what a try leaves running would run beside the next one; "
                "with keep_locks the next try waits for its end"
            )

    @property
    def retry_policy(self) -> RetryPolicy:
        """When it is tried again."""
        delay_s, longest_s = self.retry_delay, self.retry_max
        # of the two the given one moves the default of the other
        if delay_s is None:
            delay_s = DELAY_S if longest_s is None else min(DELAY_S, longest_s)
        return RetryPolicy(
            retries=self.retries or 0,
            delay_s=delay_s,
            factor=FACTOR if self.retry_factor is None else self.retry_factor,
            longest_s=max(LONGEST_PAUSE_S, delay_s) if longest_s is None else longest_s,
            retry_on=read_rules(self.retry_on or ()),
            fail_on=read_rules(self.fail_on or ()),
        )

    def summary_value(self) -> str:
        """The comment, as a submitter who names the work wants to see the name; else the command. After the node."""
        text = self.comment or (" ".join(self.argv) if self.shell else joined(self.argv))
        return _shortened(text if self.node is None else f"{self.node}: {text}")

    @property
    def is_resumable(self) -> bool:
        return self.node is not None

    def lock_declaration(self, resolve: Resolver | None = None) -> LockDeclaration:
        """As the base. A command on a node holds that node's lock, shared unless `locks` wants it in another mode.

        In `locks` nodes may be named by name, as in `node`, or by UUID; names that no node has are locked as they are.
        """
        wanted = self.locks if resolve is None else _by_uuid(self.locks, resolve)
        if self.node is None:
            return declare(wanted)
        uuid = None if resolve is None else resolve(LockLevel.NODE, self.node)
        own = member_lock(LockLevel.NODE, self.node if uuid is None else uuid)
        mode = wanted.get(own, LockMode.SHARED)
        others = {lock: each for lock, each in wanted.items() if lock != own}
        whole_level = others.get(group_lock(LockLevel.NODE))
        if whole_level is not None and whole_level.covers(mode):
            return declare(others)
        if uuid is not None:
            return declare({**others, own: mode})
        declared = declare(others)
        unknown = (*declared.levels.get(LockLevel.NODE, ()), LevelDeclaration(mode, Scope.UNKNOWN))
        return attrs.evolve(declared, levels={**declared.levels, LockLevel.NODE: unknown})

    @property
    def names_nodes(self) -> bool:
        """Whether locks of single nodes are wanted, which may be written by name."""
        return any(lock.level in _NODE_LEVELS and not lock.is_group for lock in self.locks)


def _by_uuid(locks: Mapping[Lock, LockMode], resolve: Resolver) -> Mapping[Lock, LockMode]:
    """The same with the locks of nodes by UUID, as all opcodes lock them; of two names the stronger mode counts."""
    found: dict[Lock, LockMode] = {}
    for lock, mode in locks.items():
        own = lock
        if lock.level in _NODE_LEVELS and not lock.is_group:
            uuid = resolve(LockLevel.NODE, lock.name)
            own = lock if uuid is None else member_lock(lock.level, uuid)
        if mode.covers(found.get(own)):
            found[own] = mode
    return found


# OP_NOTIFY: tell somebody, by a program or over HTTP, of something that has become of a job.
#
# luxid submits it by a rule of `[notify]` in the settings. The rule is looked up when the job runs: addresses, programs
# and secrets are in no job file.
#
# Source: DESIGN section 16; everyday.md section h.


@attrs.frozen(kw_only=True)
class OpNotify(OpCode):
    """Deliver one event; tried again after growing pauses, for a day."""

    SUBMIT_ROLE: ClassVar[Role] = Role.ADMIN

    # name of the rule
    rule: str
    # id by which receivers know a repeated delivery
    message_id: str
    # JSON, as it is signed and sent
    payload: str
    # seconds before each further try
    pauses: tuple[float, ...] = ()
    # whether it may be run again after a try of which nobody knows how far it came
    rerunnable: bool | None = True
    # job that the event is of
    job: Whole = 0

    def summary_value(self) -> str:
        """`17, operators`."""
        return f"{self.job}, {self.rule}"

    @property
    def retry_policy(self) -> RetryPolicy:
        """How many tries there are."""
        return RetryPolicy(retries=len(self.pauses))

    @property
    def stderr_apart(self) -> bool:
        return False

    def next_try_at(self, tries: int, began_at: float, ended_at: float) -> float | None:
        """The instant of the next try; None: it is given up.

        Args:
            tries: number of tries so far that count.
            began_at: instant of the first try.
        """
        last_at = began_at + GIVE_UP_S
        if tries > len(self.pauses) or ended_at >= last_at:
            return None
        return min(ended_at + self.pauses[tries - 1], last_at)
