"""Wrong passwords slow their address down; the time is virtual."""

from daemons.rapid.access.throttle import (
    FORGET_S,
    FREE,
    LONGEST_PAUSE_S,
    LONGEST_WAIT_S,
    MOST_ADDRESSES,
    Throttle,
)


def guesses_in(throttle: Throttle, seconds: float, address: str = "192.0.2.1") -> int:
    """Wrong passwords that an address gets checked in this time, when it makes the next at once."""
    now, count = 0.0, 0
    while now < seconds:
        wait_s = throttle.wait_for_turn(address, now)
        assert wait_s is not None
        now += wait_s
        throttle.failed(address, now)
        count += 1
    return count


def test_the_first_wrong_passwords_cost_no_time() -> None:
    throttle = Throttle()

    for _ in range(FREE):
        assert throttle.wait_for_turn("192.0.2.1", 0.0) == 0.0
        throttle.failed("192.0.2.1", 0.0)

    assert throttle.wait_for_turn("192.0.2.1", 0.0) == 0.25


def test_guessing_is_slow() -> None:
    guesses = guesses_in(Throttle(), 3600.0)

    assert guesses < 3600 / LONGEST_PAUSE_S + 20
    assert guesses < 1000


def test_other_addresses_are_not_slowed_down() -> None:
    throttle = Throttle()
    guesses_in(throttle, 100.0)

    assert throttle.wait_for_turn("192.0.2.2", 100.0) == 0.0


def test_after_the_longest_attack_an_attempt_waits_a_few_seconds_at_most() -> None:
    throttle = Throttle()
    guesses_in(throttle, 10_000.0)

    wait_s = throttle.wait_for_turn("192.0.2.1", 10_000.0)

    assert wait_s is not None
    assert wait_s <= 2 * LONGEST_PAUSE_S


def test_all_is_forgotten_after_a_quiet_time() -> None:
    throttle = Throttle()
    guesses_in(throttle, 1000.0)

    later = 1000.0 + 2 * LONGEST_PAUSE_S + 20 * FORGET_S

    assert [throttle.wait_for_turn("192.0.2.1", later) for _ in range(10)] == [0.0] * 10


def test_attempts_at_once_get_turns_one_after_the_other_and_the_rest_is_sent_away() -> None:
    throttle = Throttle()
    for _ in range(FREE + 2):
        throttle.failed("192.0.2.1", 0.0)

    waits = [throttle.wait_for_turn("192.0.2.1", 0.0) for _ in range(100)]

    turns = [wait for wait in waits if wait is not None]
    assert turns == sorted(set(turns))
    assert turns[-1] <= LONGEST_WAIT_S
    assert waits[len(turns) :] == [None] * (100 - len(turns))


def test_a_network_of_ipv6_counts_as_one_address_and_a_mapped_one_as_itself() -> None:
    throttle = Throttle()
    for number in range(FREE):
        throttle.failed(f"2001:db8::{number + 1:x}", 0.0)
        throttle.failed("::ffff:192.0.2.1", 0.0)

    assert throttle.wait_for_turn("2001:db8::ffff%eth0", 0.0) == 0.25
    assert throttle.wait_for_turn("2001:db8:0:1::1", 0.0) == 0.0
    assert throttle.wait_for_turn("192.0.2.1", 0.0) == 0.25
    assert throttle.wait_for_turn("192.0.2.2", 0.0) == 0.0


def test_memory_is_bounded_and_who_failed_last_is_remembered() -> None:
    throttle = Throttle()
    for number in range(MOST_ADDRESSES + 100):
        throttle.failed(f"10.0.{number // 256}.{number % 256}", 0.0)
    for _ in range(FREE):
        throttle.failed("192.0.2.1", 0.0)

    assert len(throttle) == MOST_ADDRESSES
    assert throttle.wait_for_turn("192.0.2.1", 0.0) == 0.25
