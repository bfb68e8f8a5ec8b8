"""The times of a mastership fit each other for every lease; lease.md 8."""

import pytest

from common.errors import InvalidRequest
from common.featuresettings import EtcdSettings, KeeperdSettings
from common.lease.records import LastMaster
from common.lease.times import TRIES, LeaseTimes, check_times, ghost_s, watchdog_s

LEASES = [2, 3, 5, 6, 8, 10, 15, 30, 60, 600]


def test_times_of_ten_seconds_are_those_of_the_table() -> None:
    times = LeaseTimes.of(10)

    assert (times.keepalive_s, times.request_s) == (2, 1)
    assert times.shaky_s == pytest.approx(3.33, abs=0.01)
    assert (times.stop_s, times.kill_s, times.deadline_s) == (6, 8, 9)


@pytest.mark.parametrize("ttl", LEASES)
def test_times_are_in_order_for_every_lease(ttl: int) -> None:
    times = LeaseTimes.of(ttl)

    assert times.keepalive_s < times.shaky_s < times.stop_s < times.kill_s < times.deadline_s < times.ttl_s
    assert TRIES * times.request_s < times.ttl_s / 2
    assert times.grace_s + (times.deadline_s - times.kill_s) + times.margin_s < times.ttl_s / 2


@pytest.mark.parametrize("ttl", [lease for lease in LEASES if lease >= 5])
def test_margin_holds_for_clocks_that_differ_by_a_tenth(ttl: int) -> None:
    times = LeaseTimes.of(ttl)

    assert times.margin_s >= max(1.0, 0.1 * ttl) - 1e-9


@pytest.mark.parametrize("ttl", LEASES)
def test_watchdog_bites_before_the_lease_ends(ttl: int) -> None:
    times = LeaseTimes.of(ttl)
    dog = watchdog_s(KeeperdSettings(ttl_s=ttl, watchdog="/dev/watchdog"))

    assert 1 <= dog <= ttl / 2
    # it is fed for the last time when its time-out still ends before the deadline
    assert dog <= times.deadline_s


def test_orphans_go_by_time_only_with_the_old_masters_watchdog() -> None:
    last = LastMaster(node="n1", epoch=3, boot_id="b", ttl_s=8.0)

    assert ghost_s(last) is None
    assert ghost_s(LastMaster(node="n1", epoch=3, boot_id="b", ttl_s=8.0, watchdog_s=4.0)) == 16.0


@pytest.mark.parametrize(
    ("keeperd", "etcd", "text"),
    [
        (KeeperdSettings(ttl_s=4.0), EtcdSettings(), "ttl_s 4 s in '[keeperd]' must be at least 5 s: stop"),
        (KeeperdSettings(ttl_s=7.5), EtcdSettings(), "must be whole seconds"),
        (KeeperdSettings(ttl_s=float("inf")), EtcdSettings(), "ttl_s inf s in '[keeperd]' must be whole seconds"),
        (KeeperdSettings(), EtcdSettings(request_timeout_s=2.0), "3 requests of 2 s are 6 s and must be less than"),
        (KeeperdSettings(watchdog="/dev/watchdog", watchdog_s=6), EtcdSettings(), "watchdog_s 6 in '[keeperd]'"),
        (KeeperdSettings(stale_s=10.0), EtcdSettings(), "stale_s 10 s in '[keeperd]' must be longer than ttl_s 10 s"),
    ],
)
def test_settings_that_do_not_fit_are_refused_with_the_sum(
    keeperd: KeeperdSettings, etcd: EtcdSettings, text: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_times(keeperd, etcd)

    assert text in refused.value.message


def test_request_limit_that_a_refusal_names_is_taken() -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_times(KeeperdSettings(), EtcdSettings(request_timeout_s=5.0))

    named = float(refused.value.message.rsplit("at most ", 1)[1].split(" s")[0])
    check_times(KeeperdSettings(), EtcdSettings(request_timeout_s=named))


def test_defaults_and_leases_of_tests_are_taken() -> None:
    check_times(KeeperdSettings(), EtcdSettings())
    check_times(KeeperdSettings(ttl_s=2.0, test_timings=True), EtcdSettings())
