"""Wrong passwords slow down those who try them; the time is virtual."""

from daemons.rapid.access.passwordchecks import (
    FORGET_S,
    FREE,
    FREE_OF_ADDRESS,
    LONGEST_PAUSE_S,
    LONGEST_WAIT_S,
    MOST_KEYS,
    Attempt,
    Throttle,
)


def begin(throttle: Throttle, now: float = 0.0, address: str = "192.0.2.1", name: str = "jack") -> Attempt:
    attempt = throttle.begin(address, name, now)
    assert attempt is not None
    return attempt


def fail(throttle: Throttle, now: float = 0.0, address: str = "192.0.2.1", name: str = "jack") -> float:
    """Make an attempt with a wrong password; return when that was known."""
    attempt = begin(throttle, now, address, name)
    throttle.end(attempt, now + attempt.wait_s, is_wrong=True)
    return now + attempt.wait_s


def wait_s(throttle: Throttle, now: float = 0.0, address: str = "192.0.2.1", name: str = "jack") -> float:
    """How long an attempt would wait for its turn; its password is right."""
    attempt = begin(throttle, now, address, name)
    throttle.end(attempt, now, is_wrong=False)
    return attempt.wait_s


def guesses_in(throttle: Throttle, seconds: float, names: tuple[str, ...] = ("jack",)) -> int:
    """Wrong passwords that an address gets checked in this time, when it makes the next at once."""
    now, count = 0.0, 0
    while now < seconds:
        now = fail(throttle, now, name=names[count % len(names)])
        count += 1
    return count


def test_the_first_wrong_passwords_cost_no_time() -> None:
    throttle = Throttle()

    assert [fail(throttle) for _ in range(FREE)] == [0.0] * FREE

    assert wait_s(throttle) == 0.25


def test_guessing_is_slow() -> None:
    guesses = guesses_in(Throttle(), 3600.0)

    assert guesses < 3600 / LONGEST_PAUSE_S + 20
    assert guesses < 1000


def test_guessing_for_many_names_is_as_slow() -> None:
    guesses = guesses_in(Throttle(), 3600.0, tuple(f"user{number}" for number in range(1000)))

    assert guesses < 3600 / LONGEST_PAUSE_S + FREE_OF_ADDRESS + 20


def test_other_addresses_are_not_slowed_down() -> None:
    throttle = Throttle()
    guesses_in(throttle, 100.0)

    assert wait_s(throttle, 100.0, "192.0.2.2") == 0.0


def test_other_users_of_the_address_are_not_slowed_down_however_long_one_is_guessed() -> None:
    throttle = Throttle()
    guesses_in(throttle, 10_000.0)

    assert wait_s(throttle, 10_000.0, name="jill") == 0.0


def test_after_the_longest_attack_an_attempt_waits_a_few_seconds_at_most() -> None:
    throttle = Throttle()
    guesses_in(throttle, 10_000.0)

    assert wait_s(throttle, 10_000.0) <= 2 * LONGEST_PAUSE_S


def test_all_is_forgotten_after_a_quiet_time() -> None:
    throttle = Throttle()
    guesses_in(throttle, 1000.0)

    later = 1000.0 + 2 * LONGEST_PAUSE_S + 20 * FORGET_S

    assert [wait_s(throttle, later) for _ in range(10)] == [0.0] * 10


def test_attempts_at_once_count_before_they_are_known_to_be_wrong() -> None:
    throttle = Throttle()

    begun = [throttle.begin("192.0.2.1", "jack", 0.0) for _ in range(60)]

    waits = [attempt.wait_s for attempt in begun if attempt is not None]
    assert waits == [0.0] * FREE + [0.25, 0.75, 1.75, 3.75, 7.75]
    assert begun[len(waits) :] == [None] * (60 - len(waits))
    assert wait_s(throttle, name="jill") == 0.0


def test_attempts_at_once_that_were_right_count_no_more() -> None:
    throttle = Throttle()
    begun = [begin(throttle) for _ in range(FREE)]

    for attempt in begun:
        throttle.end(attempt, 0.1, is_wrong=False)

    assert len(throttle) == 0
    assert [fail(throttle, 0.1) for _ in range(FREE)] == [0.1] * FREE


def test_attempts_at_once_get_turns_one_after_the_other_and_the_rest_is_sent_away() -> None:
    throttle = Throttle()
    now = 0.0
    for _ in range(FREE + 2):
        now = fail(throttle, now)

    begun = [throttle.begin("192.0.2.1", "jack", now) for _ in range(100)]

    turns = [attempt.wait_s for attempt in begun if attempt is not None]
    assert turns == sorted(set(turns))
    assert turns[-1] <= LONGEST_WAIT_S
    assert begun[len(turns) :] == [None] * (100 - len(turns))


def test_a_network_of_ipv6_counts_as_one_address_and_a_mapped_one_as_itself() -> None:
    throttle = Throttle()
    for number in range(FREE):
        fail(throttle, address=f"2001:db8::{number + 1:x}")
        fail(throttle, address="::ffff:192.0.2.1")

    assert wait_s(throttle, address="2001:db8::ffff%eth0") == 0.25
    assert wait_s(throttle, address="2001:db8:0:1::1") == 0.0
    assert wait_s(throttle, address="192.0.2.1") == 0.25
    assert wait_s(throttle, address="192.0.2.2") == 0.0


def test_memory_is_bounded_and_who_failed_last_is_remembered() -> None:
    throttle = Throttle()
    for number in range(MOST_KEYS):
        fail(throttle, address=f"10.0.{number // 256}.{number % 256}")
    for _ in range(FREE):
        fail(throttle)

    assert len(throttle) == MOST_KEYS
    assert wait_s(throttle) == 0.25
