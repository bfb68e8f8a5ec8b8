"""The lock weight, cell by cell of the design's table (predictive-queue design; luxid.md 5.11)."""

import pytest

from common.ids import JobId
from common.lockdecl import BIG_LOCK, LevelDeclaration, LockDeclaration, Scope
from common.locks import BGL, LockLevel, LockMode, group_lock, parse_lock
from common.queue.jobs import Job, JobOp
from daemons.luxid.core.choice.readings import next_needs
from daemons.luxid.core.choice.weights import NO_NEEDS, UNREADABLE, Needs, RunningLocks, WeightRules, needs_of

RULES = WeightRules()
# {x}: locks with the name x; ?: unknown ones; *: all
ROWS = {
    "none": (0, 0, 0, 0, 0, 0, 0),
    "S{x}": (0.3, 0, 0, 0, 0.3, 1.5, 3),
    "S?": (0.3, 0.3, 0.3, 0.3, 1.5, 1.5, 3),
    "S*": (0.3, 0.3, 0.3, 0.3, 3, 3, 3),
    "X{x}": (0.5, 0.5, 1.5, 3, 0.5, 1.5, 3),
    "X?": (0.5, 1.5, 1.5, 3, 1.5, 1.5, 3),
    "X*": (0.5, 3, 3, 3, 3, 3, 3),
}
# of another name than the rows'
COLUMNS = ("none", "S{y}", "S?", "S*", "X{y}", "X?", "X*")
CELLS = [(row, column, value) for row, values in ROWS.items() for column, value in zip(COLUMNS, values, strict=True)]
WITH_A_COMMON_NAME = [("S{x}", "S{x}", 0.0), ("S{x}", "X{x}", 3.0), ("X{x}", "S{x}", 3.0), ("X{x}", "X{x}", 3.0)]


def entries(text: str) -> tuple[LevelDeclaration, ...]:
    if text == "none":
        return ()
    mode = LockMode.SHARED if text[0] == "S" else LockMode.EXCLUSIVE
    if text[1:] in "?*":
        return (LevelDeclaration(mode, Scope.UNKNOWN if text[1] == "?" else Scope.ALL),)
    return (LevelDeclaration(mode, Scope.NAMED, frozenset({text[2]})),)


def needs(*levels: tuple[LockLevel, str]) -> Needs:
    found: dict[LockLevel, tuple[LevelDeclaration, ...]] = {}
    for level, text in levels:
        found[level] = found.get(level, ()) + entries(text)
    return needs_of(LockDeclaration(levels=found))


def weigh(pending: Needs, *running: Needs) -> float:
    running_locks = RunningLocks(RULES)
    for number, taken in enumerate(running, 1):
        running_locks.declare(JobId(number), taken)
    return running_locks.weight_of(pending)


@pytest.mark.parametrize(
    ("pending", "running", "value"), CELLS + WITH_A_COMMON_NAME, ids=lambda value: str(value).replace("*", "all")
)
@pytest.mark.parametrize("level", [LockLevel.INSTANCE, LockLevel.NODE_RES], ids=lambda level: level.value)
def test_a_pair_weighs_what_the_table_says(level: LockLevel, pending: str, running: str, value: float) -> None:
    assert weigh(needs((level, pending)), needs((level, running))) == pytest.approx(1 + value)


def test_without_running_jobs_only_the_base_counts() -> None:
    assert weigh(needs((LockLevel.NODE, "X*"), (LockLevel.INSTANCE, "X*"))) == 1


def test_on_a_level_the_dearest_running_job_counts() -> None:
    running = [needs((LockLevel.NODE, text)) for text in ("none", "X{y}", "X?")]

    assert weigh(needs((LockLevel.NODE, "S{x}")), *running) == 1 + 1.5


def test_levels_are_added_up_whichever_they_are() -> None:
    running = needs((LockLevel.NODE, "X*"), (LockLevel.INSTANCE, "X{y}"))
    others = needs((LockLevel.NETWORK, "X*"), (LockLevel.NODEGROUP, "X{y}"))

    weight = weigh(needs((LockLevel.NODE, "S?"), (LockLevel.INSTANCE, "S{x}"), (LockLevel.NODE_RES, "S{x}")), running)

    assert weight == pytest.approx(1 + 3 + 0.3 + 0.3)
    assert weight == weigh(
        needs((LockLevel.NETWORK, "S?"), (LockLevel.NODEGROUP, "S{x}"), (LockLevel.NODE_RES, "S{x}")), others
    )


def test_the_same_name_on_another_level_is_no_common_name() -> None:
    assert weigh(needs((LockLevel.NODE, "X{x}")), needs((LockLevel.NODE_RES, "X{x}"))) == 1.5


def test_of_two_modes_on_a_level_the_dearer_one_counts() -> None:
    assert weigh(needs((LockLevel.NODE, "S{x}"), (LockLevel.NODE, "X{z}")), needs((LockLevel.NODE, "S*"))) == 4


def test_a_job_that_takes_the_big_lock_weighs_base_and_15() -> None:
    assert weigh(needs_of(BIG_LOCK)) == 16
    assert weigh(needs_of(BIG_LOCK), needs((LockLevel.NODE, "X*"))) == 16


def test_a_holder_of_the_big_lock_repels_everything() -> None:
    """DESIGN section 11; a real running big-lock opcode repelled nobody (DIFF-28)."""
    assert weigh(needs((LockLevel.NODE, "S{x}")), needs_of(BIG_LOCK)) == 16
    assert weigh(needs(), needs_of(BIG_LOCK)) == 16


def test_a_job_without_any_lock_is_not_repelled_by_the_big_lock() -> None:
    assert weigh(NO_NEEDS, needs_of(BIG_LOCK)) == 1


def test_an_opcode_that_nobody_can_read_is_as_bad_as_the_big_lock_but_repels_nobody() -> None:
    job = Job(JobId(1), (JobOp({"OP_ID": "OP_OF_TOMORROW"}),))

    assert next_needs(job) is UNREADABLE
    assert weigh(UNREADABLE) == 16
    assert weigh(needs((LockLevel.NODE, "S{x}")), UNREADABLE) == pytest.approx(1.3)


def test_live_locks_of_a_level_count_in_place_of_the_declared_ones() -> None:
    running_locks = RunningLocks(RULES)
    running_locks.declare(JobId(1), needs((LockLevel.NODE, "X*"), (LockLevel.INSTANCE, "X{x}")))
    pending = needs((LockLevel.NODE, "X{x}"))
    assert running_locks.weight_of(pending) == 4

    running_locks.set_held(JobId(1), {parse_lock("node/y"): LockMode.EXCLUSIVE})

    assert running_locks.weight_of(pending) == 1.5
    assert running_locks.weight_of(needs((LockLevel.INSTANCE, "X{x}"))) == 4
    running_locks.set_held(JobId(1), {})
    assert running_locks.weight_of(pending) == 4


def test_a_live_group_lock_is_all_and_a_live_big_lock_repels() -> None:
    running_locks = RunningLocks(RULES)
    running_locks.declare(JobId(1), needs())
    running_locks.set_held(JobId(1), {group_lock(LockLevel.NODE): LockMode.SHARED})
    assert running_locks.weight_of(needs((LockLevel.NODE, "X{x}"))) == 4

    running_locks.set_held(JobId(1), {BGL: LockMode.EXCLUSIVE})

    assert running_locks.weight_of(needs((LockLevel.NODE, "S{x}"))) == 16


def test_the_weight_names_level_and_culprits() -> None:
    running_locks = RunningLocks(RULES)
    for number, text in enumerate(("X{x}", "S{y}", "X{x}"), 1):
        running_locks.declare(JobId(number), needs((LockLevel.NODE, text)))

    assert list(running_locks.causes(needs((LockLevel.NODE, "X{x}")))) == [(2, 3.0, (1, 3))]


@pytest.mark.parametrize(
    ("age_s", "factor"), [(-5, 1), (0, 1), (29, 1), (30, 29 / 30), (59, 29 / 30), (450, 0.5), (900, 0), (90_000, 0)]
)
def test_the_weight_fades_by_whole_ticks_down_to_nothing(age_s: int, factor: float) -> None:
    """DIFF-24: never below zero, and ticks are whole."""
    received_s = 1_800_000_000

    found = RULES.factor(RULES.tick(received_s), RULES.tick(received_s + age_s))

    assert found == pytest.approx(factor)


def test_base_tick_and_number_of_ticks_are_settings() -> None:
    rules = WeightRules(base=2, tick_s=10, ticks=4)

    assert RunningLocks(rules).weight_of(needs((LockLevel.NODE, "X*"))) == 2
    assert rules.factor(rules.tick(100), rules.tick(119)) == 0.75


def test_switched_off_all_weigh_nothing() -> None:
    rules = WeightRules(is_enabled=False)

    assert RunningLocks(rules).weight_of(needs_of(BIG_LOCK)) == 0
