"""The end of a command and of all that it started: the next step of its supervisor.

Theory. A command runs until its own process ends, its time is over, or a stop is requested. A stop sends SIGTERM to
all its processes, and after a grace time SIGKILL, again and again until none is left, with growing pauses.
When a command ends by itself, the processes that it leaves get a moment to end as well (the `tee` at the end of a pipe
still writes), and are then stopped; or they are left alone, if that is wanted. `EVENTS` is the whole machine. When no
process is left, all is over, in any phase.

Source: DESIGN section 16; everyday.md j, "kill order" and "left-overs".
"""

import enum
from collections.abc import Iterator, Mapping
from typing import Final, assert_never

import attrs

from common.commands.spec import Leave

# seconds for processes that end with the command, but after it
MOMENT_S: Final = 0.1
FIRST_ROUND_S: Final = 0.01
LONGEST_ROUND_S: Final = 2.0


class StopPhase(enum.Enum):
    RUNNING = "running"
    LINGERING = "lingering"  # the command has ended, the processes that it left have a moment
    KEPT = "kept"  # the command has ended, the processes that it left run on under the job's locks
    TERMED = "termed"
    KILLED = "killed"


class StopEvent(enum.Enum):
    """An event that moves the course on; of several at once the first one that the phase handles counts."""

    STOP_ASKED = "a stop is asked"
    # the command has ended by itself, and has left processes behind
    LEFT_TO_END = "it ended, what it left is to end"
    LEFT_WITH_LOCKS = "it ended, what it left keeps the locks"
    LEFT_ALONE = "it ended, what it left is detached"
    # the time of the command, the grace time, the moment, or the pause between two rounds is over
    TIME_OVER = "its time is over"


# phase -> event -> next phase; None: all is over
EVENTS: Final[Mapping[StopPhase, Mapping[StopEvent, StopPhase | None]]] = {
    StopPhase.RUNNING: {
        StopEvent.STOP_ASKED: StopPhase.TERMED,
        StopEvent.LEFT_TO_END: StopPhase.LINGERING,
        StopEvent.LEFT_WITH_LOCKS: StopPhase.KEPT,
        StopEvent.LEFT_ALONE: None,
        StopEvent.TIME_OVER: StopPhase.TERMED,
    },
    StopPhase.LINGERING: {StopEvent.STOP_ASKED: StopPhase.TERMED, StopEvent.TIME_OVER: StopPhase.TERMED},
    StopPhase.KEPT: {StopEvent.STOP_ASKED: StopPhase.TERMED},
    StopPhase.TERMED: {StopEvent.TIME_OVER: StopPhase.KILLED},
    StopPhase.KILLED: {StopEvent.TIME_OVER: StopPhase.KILLED},
}
_LEFT: Final = {
    Leave.END: StopEvent.LEFT_TO_END,
    Leave.KEEP_LOCKS: StopEvent.LEFT_WITH_LOCKS,
    Leave.DETACH: StopEvent.LEFT_ALONE,
}


class StopStep(enum.Enum):
    """The next thing to do."""

    WAIT = "wait"
    TERM = "term"
    KILL = "kill"
    OVER = "over"  # all is over


@attrs.frozen
class Seen:
    """The facts that the supervisor sees at one instant."""

    is_stop_asked: bool
    has_command_ended: bool
    is_anything_left: bool


@attrs.frozen
class Course:
    """The state of a command; times are seconds of one clock."""

    leave: Leave
    grace_s: float
    # None: no time-out
    timeout_at: float | None = None
    phase: StopPhase = StopPhase.RUNNING
    # whether the time-out came before its end
    timed_out: bool = False
    # when to look again without an event; None: never
    look_at: float | None = None
    round_s: float = FIRST_ROUND_S


def begin(leave: Leave, grace_s: float, timeout_at: float | None) -> Course:
    """The course of a command that was just started."""
    return Course(leave, grace_s, timeout_at, look_at=timeout_at)


def advance(course: Course, now: float, seen: Seen) -> tuple[Course, StopStep]:
    """Return the course after these facts, and the next step."""
    if seen.has_command_ended and not seen.is_anything_left:
        return course, StopStep.OVER
    row = EVENTS[course.phase]
    event = next((event for event in _events(course, now, seen) if event in row), None)
    if event is None:
        return course, StopStep.WAIT
    phase = row[event]
    if phase is None:
        return course, StopStep.OVER
    timed_out = course.timed_out or (course.phase is StopPhase.RUNNING and event is StopEvent.TIME_OVER)
    return _enter(attrs.evolve(course, phase=phase, timed_out=timed_out), phase, now)


def _events(course: Course, now: float, seen: Seen) -> Iterator[StopEvent]:
    """The events that have happened, in the order of `StopEvent`."""
    if seen.is_stop_asked:
        yield StopEvent.STOP_ASKED
    if seen.has_command_ended:
        yield _LEFT[course.leave]
    if course.look_at is not None and now >= course.look_at:
        yield StopEvent.TIME_OVER


def _enter(course: Course, phase: StopPhase, now: float) -> tuple[Course, StopStep]:
    """The first step of a phase, and the course with the time to look again."""
    match phase:
        case StopPhase.RUNNING:
            return course, StopStep.WAIT
        case StopPhase.LINGERING:
            return attrs.evolve(course, look_at=now + MOMENT_S), StopStep.WAIT
        case StopPhase.KEPT:
            return attrs.evolve(course, look_at=None), StopStep.WAIT
        case StopPhase.TERMED:
            return attrs.evolve(course, look_at=now + course.grace_s), StopStep.TERM
        case StopPhase.KILLED:
            round_s = min(2 * course.round_s, LONGEST_ROUND_S)
            return attrs.evolve(course, look_at=now + course.round_s, round_s=round_s), StopStep.KILL
        case _:
            assert_never(phase)
