"""What the records of a key mean (DESIGN section 13; theory in daemons/noded/core/commandphases.py)."""

import itertools

import attrs
import pytest

from daemons.noded.core.commandphases import (
    AcceptedStart,
    Records,
    Start,
    Stop,
    may_be_forgotten,
    may_begin,
    on_start,
    on_stop,
    phase_of,
)
from protocol.noded.commands import CommandPhase

HERE, D = "boot 2", "digest"
NOW, BEFORE = AcceptedStart(digest=D, boot=HERE), AcceptedStart(digest=D, boot="boot 1")
ROWS = {
    "nothing is known": (Records(), CommandPhase.UNKNOWN, Start.ACCEPT, Stop.VOID),
    "taken, and no runner": (Records(accepted=NOW), CommandPhase.RUNNING, Start.LAUNCH, Stop.VOID),
    "about to begin": (Records(accepted=NOW, is_held=True), CommandPhase.RUNNING, Start.AWAIT, Stop.VOID),
    "runs": (Records(accepted=NOW, is_held=True, has_begun=True), CommandPhase.RUNNING, Start.TELL, Stop.SIGNAL),
    "all died": (Records(accepted=NOW, has_begun=True), CommandPhase.LOST, Start.TELL, Stop.TELL),
    "the machine was restarted": (Records(accepted=BEFORE), CommandPhase.LOST, Start.TELL, Stop.TELL),
    "it ran before the restart": (Records(accepted=BEFORE, has_begun=True), CommandPhase.LOST, Start.TELL, Stop.TELL),
    "left processes": (
        Records(accepted=NOW, is_held=True, has_begun=True, has_end=True),
        CommandPhase.KEPT,
        Start.TELL,
        Stop.SIGNAL,
    ),
    "they have ended": (
        Records(accepted=NOW, has_begun=True, has_end=True),
        CommandPhase.ENDED,
        Start.TELL,
        Stop.TELL,
    ),
    "its runner is about to end": (
        Records(accepted=NOW, is_held=True, has_begun=True, has_end=True, is_over=True),
        CommandPhase.ENDED,
        Start.TELL,
        Stop.TELL,
    ),
    "ended before the restart": (
        Records(accepted=BEFORE, has_begun=True, has_end=True),
        CommandPhase.ENDED,
        Start.TELL,
        Stop.TELL,
    ),
    "void": (Records(is_void=True), CommandPhase.VOID, Start.TELL, Stop.TELL),
    "taken, then void": (Records(accepted=NOW, is_void=True), CommandPhase.VOID, Start.TELL, Stop.TELL),
    "forgotten": (Records(is_forgotten=True), CommandPhase.UNKNOWN, Start.TELL, Stop.TELL),
    "being forgotten": (
        Records(is_forgotten=True, accepted=NOW, has_begun=True),
        CommandPhase.UNKNOWN,
        Start.TELL,
        Stop.TELL,
    ),
}


@pytest.mark.parametrize(("records", "phase", "start", "stop"), ROWS.values(), ids=ROWS.keys())
def test_the_records_decide_what_is_told_and_done(
    records: Records, phase: CommandPhase, start: Start, stop: Stop
) -> None:
    assert phase_of(records, HERE) is phase
    assert on_start(records, HERE, D) is start
    assert on_stop(records, HERE) is stop


def everything() -> list[Records]:
    names = ("is_held", "has_begun", "has_end", "is_over", "is_void", "is_forgotten")
    flags = itertools.product((False, True), repeat=len(names))
    return [
        Records(accepted=accepted, **dict(zip(names, each, strict=True)))
        for each in flags
        for accepted in (None, NOW, BEFORE)
    ]


def test_another_command_is_refused_as_long_as_the_first_one_is_known() -> None:
    for records in everything():
        if records.accepted and not records.is_void and not records.is_forgotten:
            assert on_start(records, HERE, "another") is Start.REFUSE
        else:
            assert on_start(records, HERE, "another") is not Start.REFUSE


def test_a_runner_begins_only_what_nobody_has_begun_ended_or_forbidden() -> None:
    free = [records for records in everything() if may_begin(records, HERE, D)]

    assert {attrs.evolve(records, is_held=True) for records in free} == {
        Records(accepted=NOW, is_held=True),
        Records(accepted=NOW, is_held=True, is_over=True),
    }
    assert not any(may_begin(records, HERE, "another") for records in free)


def test_nothing_is_forgotten_of_what_may_run() -> None:
    for records in everything():
        if may_be_forgotten(records, HERE):
            assert phase_of(records, HERE) in (CommandPhase.ENDED, CommandPhase.LOST, CommandPhase.VOID)
            assert not may_begin(records, HERE, D)
