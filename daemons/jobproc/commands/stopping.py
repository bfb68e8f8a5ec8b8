"""How a command and all that it started come to their end: what its supervisor does next.

Theory. A command runs until its own process ends, its time is over, or it is to be stopped. To stop means SIGTERM for
all of it, and after a grace time SIGKILL, again and again until nothing is left; the pause before the next round grows.
What a command leaves behind when it ends by itself is given a moment to end as well (the `tee` at the end of a pipe
still writes), and is then stopped; or it is left alone, if that was wanted.

Source: DESIGN section 16; everyday.md j, "kill order" and "left-overs".
"""

import enum
from typing import Final

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
    is_due = course.look_at is not None and now >= course.look_at
    match course.phase:
        case Phase.RUNNING if seen.is_stop_asked or (is_due and not seen.has_command_ended):
            return _term(course, now, timed_out=not seen.is_stop_asked)
        case Phase.RUNNING if seen.has_command_ended:
            return _after_end(course, now)
        case Phase.LINGERING if seen.is_stop_asked or is_due:
            return _term(course, now, timed_out=False)
        case Phase.KEPT if seen.is_stop_asked:
            return _term(course, now, timed_out=False)
        case Phase.TERMED if is_due:
            return _kill(course, now)
        case Phase.KILLED if is_due:
            return _kill(course, now)
    return course, Step.WAIT


def _after_end(course: Course, now: float) -> tuple[Course, Step]:
    match course.leave:
        case Leave.DETACH:
            return course, Step.OVER
        case Leave.KEEP_LOCKS:
            return attrs.evolve(course, phase=Phase.KEPT, look_at=None), Step.WAIT
        case Leave.END:
            return attrs.evolve(course, phase=Phase.LINGERING, look_at=now + MOMENT_S), Step.WAIT


def _term(course: Course, now: float, *, timed_out: bool) -> tuple[Course, Step]:
    return attrs.evolve(course, phase=Phase.TERMED, timed_out=timed_out, look_at=now + course.grace_s), Step.TERM


def _kill(course: Course, now: float) -> tuple[Course, Step]:
    after = attrs.evolve(
        course,
        phase=Phase.KILLED,
        look_at=now + course.round_s,
        round_s=min(2 * course.round_s, LONGEST_ROUND_S),
    )
    return after, Step.KILL
