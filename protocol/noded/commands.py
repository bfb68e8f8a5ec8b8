"""Commands on a node: started under a key, followed, stopped, forgotten; calls of ours.

Theory. The key names the command in the whole cluster: job, opcode, try. A second start of a key is no second start: it
returns the state of the first one, for as long as the node remembers the key. So a start whose reply was lost is
sent again, also by another job process, or by one of another master. A key that is to be stopped and was never started
becomes *void*: a start that arrives later starts nothing. All that the node remembers is durable there before a reply
tells it.

The node keeps what the command writes, and the caller reads it from any byte on. The time-out, and the order of the
signals of a stop, are the node's affair: they work without the master.

Source: DESIGN section 13.
"""

import enum
from collections.abc import Mapping
from typing import ClassVar, Final

import attrs

from common.commands.spec import CommandOutcome, CommandSpec
from common.shapes import Lenient, Row
from protocol.noded.call import SLOW_S, URGENT_S, Content, NodeCall

# most bytes of output, and of standard error, in one reply
MOST_OUTPUT: Final = 2**20
NO_OUTPUT: Final = Content(b"")
# longest wait of `FollowCommand`, seconds
LONGEST_WAIT_S: Final = 50.0
# most commands of one reply of `ListCommands`, and keys of one `ForgetCommands`
MOST_COMMANDS: Final = 1000


class CommandPhase(enum.Enum):
    """What the node knows of a key."""

    RUNNING = "running"
    # the program has ended, processes that it left run on and keep the job's locks
    KEPT = "kept"
    # none of its processes lives; the outcome tells the rest
    ENDED = "ended"
    # it was started, none of its processes lives, and how it ended was not written: the node was restarted, say
    LOST = "lost"
    # it was stopped before it was ever started, and will not be
    VOID = "void"
    # the node has never heard of it, or has forgotten it
    UNKNOWN = "unknown"

    @property
    def may_run(self) -> bool:
        """Whether it may still run: a process of it may live."""
        return self in (CommandPhase.RUNNING, CommandPhase.KEPT)


@attrs.frozen(kw_only=True)
class CommandState(Lenient):
    key: str
    phase: CommandPhase
    # seconds since 1970, of the node's clock; 0: it has not begun
    begun_at: float = 0.0
    # bytes that its two streams have had so far
    output_bytes: int = 0
    error_bytes: int = 0
    # what the starter gave with it
    output_base: int = 0
    error_base: int = 0
    # of phases *kept* and *ended*
    outcome: CommandOutcome | None = None


@attrs.frozen
class StartCommand(NodeCall[CommandState]):
    """Start a command, unless its key is known already; returns when its program was executed, or could not be.

    Refused: the key is known with another command; there is no room, or no process. A refusal is no proof that a start
    that is delivered once more will be refused, too: a stop is. Phase *unknown*: the node has forgotten the key.
    Durability: the start is durable on the node before the program is executed.
    """

    METHOD = "gantry_start_command"
    LIMIT_S = URGENT_S
    key: str
    spec: CommandSpec
    # bytes that the job's two files of output had before this command: returned with each state, for later followers
    output_base: int
    error_base: int


@attrs.frozen(kw_only=True)
class CommandNews(Lenient):
    """A state, and what was written from the asked bytes on, at most `MOST_OUTPUT` of each stream."""

    state: CommandState
    # first byte of what follows; greater than asked: the node has kept no earlier output
    output_from: int = 0
    output: Content = NO_OUTPUT
    error_from: int = 0
    error: Content = NO_OUTPUT


@attrs.frozen
class FollowCommand(NodeCall[CommandNews]):
    """Return as soon as there is output beyond these bytes, or another phase than this; or when the wait is over."""

    METHOD = "gantry_follow_command"
    key: str
    output_from: int
    error_from: int
    # phase that the caller knows
    known: CommandPhase
    # seconds, at most `LONGEST_WAIT_S`; 0: return at once
    wait: float
    # beyond the wait
    _MARGIN_S: ClassVar[float] = 10.0

    @property
    def limit_s(self) -> float:
        return self.wait + self._MARGIN_S


@attrs.frozen
class StopCommand(NodeCall[CommandState]):
    """Ask all processes of a command to end, and kill them after its grace time; returns at once.

    A key that was never started becomes *void*.
    Durability: that it is void is durable on return.
    """

    METHOD = "gantry_stop_command"
    LIMIT_S = URGENT_S
    key: str


@attrs.frozen
class ForgetCommands(NodeCall[None]):
    """Remove what the node keeps of commands that have ended; others, and unknown keys, are left alone.

    A short note stays for a day, so that a start that was under way does not start it again.
    """

    METHOD = "gantry_forget_commands"
    LIMIT_S = URGENT_S
    keys: tuple[str, ...]


@attrs.frozen
class ListCommands(NodeCall[tuple[CommandState, ...]]):
    """The states of all commands whose keys come after this one, sorted as strings; at most `MOST_COMMANDS`.

    One whose records on the node are damaged counts as running.
    """

    METHOD = "gantry_list_commands"
    LIMIT_S = URGENT_S
    after: str


# Work on a node: delays for tests, hooks, restricted commands, the watcher's pause.
#
# Source: noded.md section 6.


@attrs.frozen
class TestDelay(NodeCall[None]):
    """Sleep; a negative duration fails."""

    METHOD = "test_delay"
    # not a test of pytest
    __test__ = False
    # seconds
    duration: float

    @property
    def limit_s(self) -> float:
        return max(int(self.duration), 0) + 5.0


@attrs.frozen
class GetWatcherPause(NodeCall[float | None]):
    """The instant until which the watcher pauses, in seconds since 1970; null if it does not."""

    METHOD = "get_watcher_pause"
    LIMIT_S = URGENT_S


@attrs.frozen
class SetNodeWatcherPause(NodeCall[None]):
    """LuxiD allows 300 s."""

    METHOD = "set_watcher_pause"
    LIMIT_S = URGENT_S
    # seconds since 1970; null: no pause
    until: float | None


@attrs.frozen
class HookRun(Row):
    """A script that was run: `[name, status, output]`."""

    script: str
    # 0 skipped, 1 failed, 2 succeeded
    status: int
    output: str


@attrs.frozen
class HooksRunner(NodeCall[tuple[HookRun, ...]]):
    METHOD = "hooks_runner"
    REPEATABLE = False
    hpath: str
    # pre or post
    phase: str
    env: Mapping[str, str]


@attrs.frozen
class RestrictedCommand(NodeCall[str]):
    """Run a command of the node's folder of restricted commands; returns its output."""

    METHOD = "restricted_command"
    LIMIT_S = SLOW_S
    REPEATABLE = False
    cmd: str
