"""Pauses before the next process of a job whose command runs on a node (DESIGN section 13)."""

from daemons.luxid.core.queue.recovery import LONGEST_PAUSE_S, pause_before


def test_the_first_process_after_a_death_starts_at_once() -> None:
    assert pause_before(1, 0) == 0


def test_processes_that_die_again_and_again_are_replaced_ever_later_but_always() -> None:
    assert [pause_before(deaths, 0) for deaths in (2, 3, 4, 7, 10**9)] == [1, 2, 4, LONGEST_PAUSE_S, LONGEST_PAUSE_S]


def test_starts_that_come_to_nothing_are_repeated_sooner() -> None:
    assert [pause_before(1, failures) for failures in (1, 2, 100)] == [0.1, 0.2, 5]
    assert pause_before(3, 1) == 2
