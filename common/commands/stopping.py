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


class Phase(enum.Enum):
    RUNNING = "running"
    LINGERING = "lingering"  # the command has ended, the processes that it left have a moment
    KEPT = "kept"  # the command has ended, the processes that it left run on under the job's locks
    TERMED = "termed"
    KILLED = "killed"


class Event(enum.Enum):
    """An event that moves the course on; of several at once the first one that the phase handles counts."""

    STOP_ASKED = "a stop is asked"
    # the command has ended by itself, and has left processes behind
    LEFT_TO_END = "it ended, what it left is to end"
    LEFT_WITH_LOCKS = "it ended, what it left keeps the locks"
    LEFT_ALONE = "it ended, what it left is detached"
    # the time of the command, the grace time, the moment, or the pause between two rounds is over
    TIME_OVER = "its time is over"


# phase -> event -> next phase; None: all is over
EVENTS: Final[Mapping[Phase, Mapping[Event, Phase | None]]] = {
    Phase.RUNNING: {
        Event.STOP_ASKED: Phase.TERMED,
        Event.LEFT_TO_END: Phase.LINGERING,
        Event.LEFT_WITH_LOCKS: Phase.KEPT,
        Event.LEFT_ALONE: None,
        Event.TIME_OVER: Phase.TERMED,
    },
    Phase.LINGERING: {Event.STOP_ASKED: Phase.TERMED, Event.TIME_OVER: Phase.TERMED},
    Phase.KEPT: {Event.STOP_ASKED: Phase.TERMED},
    Phase.TERMED: {Event.TIME_OVER: Phase.KILLED},
    Phase.KILLED: {Event.TIME_OVER: Phase.KILLED},
}
_LEFT: Final = {
    Leave.END: Event.LEFT_TO_END,
    Leave.KEEP_LOCKS: Event.LEFT_WITH_LOCKS,
    Leave.DETACH: Event.LEFT_ALONE,
}


class Step(enum.Enum):
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
    phase: Phase = Phase.RUNNING
    # whether the time-out came before its end
    timed_out: bool = False
    # when to look again without an event; None: never
    look_at: float | None = None
    round_s: float = FIRST_ROUND_S


def begin(leave: Leave, grace_s: float, timeout_at: float | None) -> Course:
    """The course of a command that was just started."""
    return Course(leave, grace_s, timeout_at, look_at=timeout_at)


def advance(course: Course, now: float, seen: Seen) -> tuple[Course, Step]:
    """Return the course after these facts, and the next step."""
    if seen.has_command_ended and not seen.is_anything_left:
        return course, Step.OVER
    row = EVENTS[course.phase]
    event = next((event for event in _events(course, now, seen) if event in row), None)
    if event is None:
        return course, Step.WAIT
    phase = row[event]
    if phase is None:
        return course, Step.OVER
    timed_out = course.timed_out or (course.phase is Phase.RUNNING and event is Event.TIME_OVER)
    return _enter(attrs.evolve(course, phase=phase, timed_out=timed_out), phase, now)


def _events(course: Course, now: float, seen: Seen) -> Iterator[Event]:
    """The events that have happened, in the order of `Event`."""
    if seen.is_stop_asked:
        yield Event.STOP_ASKED
    if seen.has_command_ended:
        yield _LEFT[course.leave]
    if course.look_at is not None and now >= course.look_at:
        yield Event.TIME_OVER


def _enter(course: Course, phase: Phase, now: float) -> tuple[Course, Step]:
    """The first step of a phase, and the course with the time to look again."""
    match phase:
        case Phase.RUNNING:
            return course, Step.WAIT
        case Phase.LINGERING:
            return attrs.evolve(course, look_at=now + MOMENT_S), Step.WAIT
        case Phase.KEPT:
            return attrs.evolve(course, look_at=None), Step.WAIT
        case Phase.TERMED:
            return attrs.evolve(course, look_at=now + course.grace_s), Step.TERM
        case Phase.KILLED:
            round_s = min(2 * course.round_s, LONGEST_ROUND_S)
            return attrs.evolve(course, look_at=now + course.round_s, round_s=round_s), Step.KILL
        case _:
            assert_never(phase)
