"""How a command and all that it started come to their end: what its supervisor does next.

Theory. A command runs until its own process ends, its time is over, or it is to be stopped. To stop means SIGTERM for
all of it, and after a grace time SIGKILL, again and again until nothing is left; the pause before the next round grows.
What a command leaves behind when it ends by itself is given a moment to end as well (the `tee` at the end of a pipe
still writes), and is then stopped; or it is left alone, if that was wanted. `EVENTS` is the whole course; when nothing
is left at all it is over, whatever the phase.

Source: DESIGN section 16; everyday.md j, "kill order" and "left-overs".
"""

import enum
from collections.abc import Iterator, Mapping
from typing import Final, assert_never

import attrs

# for processes that end with the command, but after it
MOMENT_S: Final = 0.1
FIRST_ROUND_S: Final = 0.01
LONGEST_ROUND_S: Final = 2.0


class Leave(enum.Enum):
    """What becomes of processes that a command leaves behind."""

    END = "end"
    # they run on, and nothing of the job waits for them
    DETACH = "detach"
    # they run on, and the job's locks are kept until the last of them has ended
    KEEP_LOCKS = "keep locks"


class Phase(enum.Enum):
    RUNNING = "running"
    LINGERING = "lingering"  # the command has ended, what it left has a moment
    KEPT = "kept"  # the command has ended, what it left runs on under the job's locks
    TERMED = "termed"
    KILLED = "killed"


class Event(enum.Enum):
    """What can move a course on; of several at once the first in this order that the phase heeds."""

    STOP_ASKED = "a stop is asked"
    # the command has ended by itself, and has left processes behind
    LEFT_TO_END = "it ended, what it left is to end"
    LEFT_WITH_LOCKS = "it ended, what it left keeps the locks"
    LEFT_ALONE = "it ended, what it left is detached"
    # of the command, the grace time, the moment, or the pause between two rounds
    TIME_OVER = "its time is over"


# None: nothing more is to be done
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
    """What to do now."""

    WAIT = "wait"
    TERM = "term"
    KILL = "kill"
    OVER = "over"  # nothing more is to be done


@attrs.frozen
class Seen:
    """What the supervisor sees at one instant."""

    is_stop_asked: bool
    has_command_ended: bool
    is_anything_left: bool


@attrs.frozen
class Course:
    """Where a command stands; times are of one clock, in seconds."""

    leave: Leave
    grace_s: float
    # None: it may run for ever
    timeout_at: float | None = None
    phase: Phase = Phase.RUNNING
    # the time-out came before its end
    timed_out: bool = False
    # when to look again although nothing happened; None: never
    look_at: float | None = None
    round_s: float = FIRST_ROUND_S


def begin(leave: Leave, grace_s: float, timeout_at: float | None) -> Course:
    """The course of a command that has just been started."""
    return Course(leave, grace_s, timeout_at, look_at=timeout_at)


def advance(course: Course, now: float, seen: Seen) -> tuple[Course, Step]:
    """What is to be done now, and the course after it."""
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
    """What has happened, in the order of `Event`."""
    if seen.is_stop_asked:
        yield Event.STOP_ASKED
    if seen.has_command_ended:
        yield _LEFT[course.leave]
    if course.look_at is not None and now >= course.look_at:
        yield Event.TIME_OVER


def _enter(course: Course, phase: Phase, now: float) -> tuple[Course, Step]:
    """What to do at the beginning of a phase, and when to look again."""
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
