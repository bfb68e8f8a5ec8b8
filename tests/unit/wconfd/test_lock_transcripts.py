"""Readable stories of locks: each `tests/transcripts/locks*.txt` is a list of commands with what they show.

A command stands before `----`, its answer and, unless it only asks, the whole state after it; an
empty line ends it.

    update|queue PRIORITY|union|known LEAST  OWNER LOCK=MODE ...
    free OWNER [LEVEL]   downgrade OWNER LEVEL   intersect OWNER LOCK ...
    why OWNER   list   reload   fair MAX_BYPASS
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from common.errors import LockRuleViolation
from common.locks import LockLevel, parse_lock
from daemons.wconfd.core.locks import waiting
from daemons.wconfd.core.locks.encoding import decode, encode
from daemons.wconfd.core.locks.waiting import LockChange, LockState
from tests.support.locks import owned, owner, requests, state_text
from tests.support.stories.transcripts import TRANSCRIPTS, steps

CHANGES: dict[str, Callable[[LockState, list[str]], LockChange]] = {
    "update": lambda state, words: waiting.try_update(state, owner(words[0]), requests(" ".join(words[1:]))),
    "queue": lambda state, words: waiting.update_or_queue(
        state, owner(words[1]), int(words[0]), requests(" ".join(words[2:]))
    ),
    "union": lambda state, words: waiting.opportunistic_union(state, owner(words[0]), owned(" ".join(words[1:]))),
    "guarded": lambda state, words: waiting.guarded_union(
        state, owner(words[1]), int(words[0]), owned(" ".join(words[2:]))
    ),
    "free": lambda state, words: (
        waiting.free_level(state, owner(words[0]), LockLevel.parse(words[1]))
        if words[1:]
        else waiting.free_all(state, owner(words[0]))
    ),
    "downgrade": lambda state, words: waiting.downgrade_level(state, owner(words[0]), LockLevel.parse(words[1])),
    "intersect": lambda state, words: waiting.intersect(state, owner(words[0]), list(map(parse_lock, words[1:]))),
    "reload": lambda state, words: LockChange(decode(encode(state), state.fairness.max_bypass)),
    "fair": lambda state, words: LockChange(LockState.fair(int(words[0]))),
}


def show(state: LockState, command: str) -> tuple[LockState, str]:
    """Carry out one command; the state after it, and what a transcript says under it."""
    verb, *words = command.split()
    if verb == "why":
        return state, "behind " + (" ".join(map(str, waiting.blockers(state, owner(words[0])))) or "nobody")
    if verb == "list":
        rows = state.table.locks_with_holders()
        return state, "\n".join(
            " ".join([str(lock), *(f"{who}:{mode.value}" for who, mode in holders.items())]) for lock, holders in rows
        )
    try:
        change = CHANGES[verb](state, words)
    except LockRuleViolation as error:
        return state, f"error: {error.message}"
    return change.state, "\n".join([*answer(change), state_text(change.state)])


def answer(change: LockChange) -> Iterator[str]:
    if change.blocked_on:
        yield "blocked on " + " ".join(map(str, change.blocked_on))
    if change.taken:
        yield "took " + " ".join(map(str, change.taken))
    if change.granted:
        yield "granted " + " ".join(map(str, change.granted))


@pytest.mark.parametrize("path", sorted(TRANSCRIPTS.glob("locks*.txt")), ids=lambda path: path.stem)
def test_the_locks_behave_as_the_transcript_says(path: Path) -> None:
    state = LockState()

    for command, expected in steps(path.read_text("utf-8")):
        state, shown = show(state, command)
        assert shown == expected, f"{path.name}: after {command!r}"


def test_there_are_transcripts() -> None:
    assert list(TRANSCRIPTS.glob("locks*.txt"))
