"""The rules of retries: which failures are tried again, and when (everyday.md b, j)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.commands.retryrules import (
    JITTER,
    MOST_FACTOR,
    MOST_RETRIES,
    RetryPolicy,
    Rule,
    TryFailure,
    TryFailureKind,
    decide,
    pause_after,
    read_rule,
    read_rules,
)
from common.opcodes.command import OpRunCommand

_CODES = st.integers(0, 255)
_SIGNALS = st.sampled_from(["SIGKILL", "SIGTERM", "SIGSEGV"])
FAILURES = st.one_of(
    st.builds(TryFailure, st.just(TryFailureKind.EXIT), _CODES),
    st.builds(TryFailure, st.just(TryFailureKind.SIGNAL), st.none(), _SIGNALS),
    st.builds(
        TryFailure,
        st.sampled_from([TryFailureKind.TIMEOUT, TryFailureKind.MEMORY]),
        _CODES | st.none(),
        _SIGNALS | st.none(),
    ),
    st.just(TryFailure(TryFailureKind.START)),
)
WORDS = st.one_of(
    st.sampled_from(["any", "exit", "signal", "timeout", "memory", "start", "signal=KILL", "signal=sigterm"]),
    _CODES.map("exit={}".format),
    st.tuples(_CODES, _CODES).map(lambda pair: f"exit={min(pair)}-{max(pair)}"),
)
RULES = st.lists(WORDS, max_size=4).map(read_rules)
POLICIES = st.builds(
    RetryPolicy,
    retries=st.integers(0, MOST_RETRIES),
    delay_s=st.floats(0, 1e9),
    factor=st.floats(1, MOST_FACTOR),
    longest_s=st.floats(0, 1e9),
    retry_on=RULES,
    fail_on=RULES,
)
CHANCES = st.floats(-1, 1)


def fits_by_word(word: str, failure: TryFailure) -> bool:
    """The dumb twin of `Rule.fits`."""
    kind, _, value = word.partition("=")
    if kind == "any":
        return failure.kind is not TryFailureKind.START
    if kind != failure.kind.value:
        return False
    if kind == "exit" and value:
        codes = [int(code) for code in value.split("-")]
        return failure.exit_code in range(codes[0], codes[-1] + 1)
    return not value or failure.signal in (value, f"SIG{value.upper().removeprefix('SIG')}")


@given(WORDS, FAILURES)
def test_a_word_names_the_failures_that_it_says(word: str, failure: TryFailure) -> None:
    assert read_rule(word).fits(failure) == fits_by_word(word, failure)


@given(POLICIES, FAILURES, st.integers(1, MOST_RETRIES + 1), CHANCES)
def test_a_failure_is_tried_again_if_a_try_is_left_and_no_rule_is_against_it(
    policy: RetryPolicy, failure: TryFailure, tries: int, chance: float
) -> None:
    wanted = any(rule.fits(failure) for rule in policy.retry_on or (Rule(None),))
    refused = any(rule.fits(failure) for rule in policy.fail_on)

    again = decide(policy, failure, tries, 1000.0, chance)

    assert (again is not None) == (tries < policy.tries and wanted and not refused)


@given(POLICIES, FAILURES, CHANCES)
def test_a_command_has_exactly_its_tries(policy: RetryPolicy, failure: TryFailure, chance: float) -> None:
    tries = 1
    while tries < 20 and decide(policy, failure, tries, 0.0, chance) is not None:
        tries += 1

    assert tries in (1, min(policy.tries, 20))


@given(POLICIES, st.integers(1, MOST_RETRIES), CHANCES)
def test_a_pause_is_never_beyond_its_limit_nor_far_from_what_was_wanted(
    policy: RetryPolicy, tries: int, chance: float
) -> None:
    pause_s = pause_after(policy, tries, chance)

    plain_s = pause_after(policy, tries, 0.0)
    assert 0 <= pause_s <= policy.longest_s
    assert abs(pause_s - plain_s) <= plain_s * JITTER * (1 + 1e-9)


@given(POLICIES, st.integers(1, MOST_RETRIES - 1))
def test_pauses_grow_until_their_limit(policy: RetryPolicy, tries: int) -> None:
    assert pause_after(policy, tries, 0.0) <= pause_after(policy, tries + 1, 0.0)


def test_pauses_double_from_half_a_minute_to_ten_minutes_unless_told_otherwise() -> None:
    policy = OpRunCommand(argv=("true",), retries=9).retry_policy

    assert [pause_after(policy, tries, 0.0) for tries in range(1, 8)] == [30, 60, 120, 240, 480, 600, 600]


@pytest.mark.parametrize("chance", [-1.0, -0.5, 0.0, 0.5, 1.0])
def test_pauses_at_the_limit_are_spread_as_well(chance: float) -> None:
    policy = RetryPolicy(retries=9, delay_s=600.0)

    assert pause_after(policy, 5, chance) == pytest.approx(600 - abs(chance) * 120)


def test_a_cause_decides_and_not_the_exit_code_that_it_makes() -> None:
    policy = RetryPolicy(retries=3, retry_on=read_rules(["exit=137", "signal=KILL"]))

    assert decide(policy, TryFailure(TryFailureKind.MEMORY, 137), 1, 0.0, 0.0) is None
    assert decide(policy, TryFailure(TryFailureKind.TIMEOUT, None, "SIGKILL"), 1, 0.0, 0.0) is None
    assert decide(policy, TryFailure(TryFailureKind.EXIT, 137), 1, 0.0, 0.0) == 30.0


def test_a_program_that_is_not_there_is_tried_again_only_if_that_was_said() -> None:
    failure = TryFailure(TryFailureKind.START)

    assert decide(RetryPolicy(retries=3), failure, 1, 0.0, 0.0) is None
    assert decide(RetryPolicy(retries=3, retry_on=read_rules(["any"])), failure, 1, 0.0, 0.0) is None
    assert decide(RetryPolicy(retries=3, retry_on=read_rules(["any", "start"])), failure, 1, 0.0, 0.0) == 30.0


@pytest.mark.parametrize(
    ("given", "delay_s", "longest_s"),
    [({"retry_max": 10}, 10, 10), ({"retry_delay": 7200}, 7200, 7200), ({"retry_delay": 5}, 5, 600)],
)
def test_of_delay_and_limit_the_given_one_moves_the_other(
    given: dict[str, float], delay_s: float, longest_s: float
) -> None:
    policy = OpRunCommand(argv=("true",), retries=1, **given).retry_policy  # type: ignore[arg-type]

    assert (policy.delay_s, policy.longest_s) == (delay_s, longest_s)
