"""Whether a command that failed is run again, and when: rules without a clock and without chance.

A failure is of one kind. Its cause decides, and not the exit code that a shell makes of it: a command that the kernel
killed for memory and one that was stopped at its time limit may both end with 137. The words of a rule:

    exit=75  exit=64-78  exit     exit codes of the command, one, a range, any
    signal=KILL  signal           ended by a signal that neither the job nor the kernel's care for memory has sent
    timeout                       stopped at its time limit
    memory                        killed for memory, it or a process of it
    start                         its program was not executed: there is none, or there is no such user or folder
    any                           any of these but `start`, which mostly tells an error in writing

A command that is canceled, or that the checks before its start refuse, is not run again.

Source: DESIGN section 16; everyday.md sections b, j.
"""

import enum
import re
import signal
from collections.abc import Sequence
from typing import Final

import attrs

from common.errors import InvalidRequest

DELAY_S: Final = 30.0
FACTOR: Final = 2.0
LONGEST_PAUSE_S: Final = 600.0
# each pause is longer or shorter by up to this part, so that jobs which failed together do not come back together
JITTER: Final = 0.2
MOST_RETRIES: Final = 1000
MOST_FACTOR: Final = 100.0
# consecutive tries that were lost and not counted; a further one is a failure of the job
MOST_LOST: Final = 5
_FIRST_LOST_PAUSE_S: Final = 1.0
WORDS: Final = "exit=CODE, exit=FROM-TO, exit, signal=NAME, signal, timeout, memory, start, any"
_CODES: Final = re.compile(r"(\d{1,3})(?:-(\d{1,3}))?", re.ASCII)


class TryFailureKind(enum.Enum):
    """The kind of a failure; the value is its word."""

    EXIT = "exit"
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    START = "start"


@attrs.frozen
class TryFailure:
    """A failed try of a command."""

    kind: TryFailureKind
    exit_code: int | None = None
    # such as "SIGKILL"
    signal: str | None = None


@attrs.frozen
class Rule:
    """The failures that a word names."""

    # None: any but START
    kind: TryFailureKind | None
    # exit codes, first and last; None: any
    codes: tuple[int, int] | None = None
    # such as "SIGKILL"; None: any
    signal: str | None = None

    def fits(self, failure: TryFailure) -> bool:
        if self.kind is None:
            return failure.kind is not TryFailureKind.START
        if failure.kind is not self.kind:
            return False
        if self.codes is not None:
            return failure.exit_code is not None and self.codes[0] <= failure.exit_code <= self.codes[1]
        return self.signal is None or failure.signal == self.signal


@attrs.frozen(kw_only=True)
class RetryPolicy:
    """What the submitter wants after a failure."""

    # number of further tries after the first
    retries: int = 0
    # seconds before the second try; each later pause is `factor` times as long, up to `longest_s`
    delay_s: float = DELAY_S
    factor: float = FACTOR
    longest_s: float = LONGEST_PAUSE_S
    # failures after which it is run again; empty: any
    retry_on: tuple[Rule, ...] = ()
    # failures after which it is not, whatever `retry_on` says
    fail_on: tuple[Rule, ...] = ()

    @property
    def tries(self) -> int:
        """Number of tries in all."""
        return self.retries + 1


def read_rules(words: Sequence[str]) -> tuple[Rule, ...]:
    """Read the words of rules. Raises: InvalidRequest: a word names no failure."""
    return tuple(map(read_rule, words))


def read_rule(word: str) -> Rule:
    """Read one word. Raises: InvalidRequest: it names no failure."""
    name, equals, value = word.partition("=")
    if not equals:
        if name == "any":
            return Rule(None)
        if name in _KINDS:
            return Rule(_KINDS[name])
    elif name == TryFailureKind.EXIT.value:
        return Rule(TryFailureKind.EXIT, codes=_codes(word, value))
    elif name == TryFailureKind.SIGNAL.value:
        return Rule(TryFailureKind.SIGNAL, signal=_signal_name(word, value))
    raise InvalidRequest(f"{word!r:.60} names no failure of a command; write one of {WORDS}")


def fits_any(rules: Sequence[Rule], failure: TryFailure) -> bool:
    """Whether the failure is one of these."""
    return any(rule.fits(failure) for rule in rules)


def decide(policy: RetryPolicy, failure: TryFailure, tries: int, ended_at: float, chance: float) -> float | None:
    """Return the instant before which the next try does not begin; None: this was the last one.

    Args:
        tries: number of tries so far that count, this one among them; at least 1.
        ended_at: end of this try; the result is an instant of the same clock.
        chance: from -1 to 1, evenly spread.
    """
    if tries > policy.retries or fits_any(policy.fail_on, failure):
        return None
    wanted = policy.retry_on or (Rule(None),)
    return ended_at + pause_after(policy, tries, chance) if fits_any(wanted, failure) else None


def pause_after(policy: RetryPolicy, tries: int, chance: float) -> float:
    """Seconds after the try with this number, from 1; never more than `longest_s`. Args: chance: as for `decide`."""
    pause_s = policy.delay_s
    for _ in range(tries - 1):
        # stops early: the power of a large number may be none
        if pause_s >= policy.longest_s or not pause_s:
            break
        pause_s *= policy.factor
    pause_s = min(pause_s, policy.longest_s)
    spread_s = pause_s * (1 + JITTER * chance)
    # beyond the limit it is as much shorter, so that jobs at the limit are spread as well
    return spread_s if spread_s <= policy.longest_s else 2 * policy.longest_s - spread_s


def lost_pause(lost: int) -> float:
    """Seconds after a try that was lost, and is not counted. Args: lost: those before it in a row."""
    return min(_FIRST_LOST_PAUSE_S * 2.0**lost, LONGEST_PAUSE_S)


_KINDS: Final = {kind.value: kind for kind in TryFailureKind}


def _codes(word: str, value: str) -> tuple[int, int]:
    match = _CODES.fullmatch(value)
    if match is not None:
        first, last = int(match[1]), int(match[2] or match[1])
        if first <= last <= 255:
            return first, last
    raise InvalidRequest(f"{word!r:.60}: a command ends with a code from 0 to 255; write exit=75 or exit=64-78")


def _signal_name(word: str, value: str) -> str:
    name = f"SIG{value.upper().removeprefix('SIG')}"
    if name not in signal.Signals.__members__:
        raise InvalidRequest(f"{word!r:.60}: there is no such signal; write signal=KILL, signal=TERM and the like")
    return name
