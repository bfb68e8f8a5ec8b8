"""What a load balancer is told in each state, from memory and clock alone (lease.md 2 and 7)."""

import json

import attrs
import pytest

from common.lease.records import Fence, MasterRecord
from common.lease.times import LeaseTimes
from daemons.keeperd.core.keeper import Keeper, Me, OwnMastership
from daemons.keeperd.core.states import NodeMemory, State
from daemons.keeperd.health import HealthPages

ME = Me(node="node1.test", boot_id="b", ttl_s=10.0)
NOW = 1000.0
TIMES = LeaseTimes.of(10.0)
HELD = OwnMastership(
    Fence(4, 7, 7), MasterRecord(node="node1.test", nonce="n", epoch=4, ttl_s=10.0), TIMES, renewed_at=NOW
)


def health(
    keeper: Keeper | None, monkeypatch: pytest.MonkeyPatch, now: float = NOW, *, is_well: bool = True
) -> HealthPages:
    monkeypatch.setattr("daemons.keeperd.health.boottime", lambda: now)
    return HealthPages("node1.test", lambda: keeper, lambda: is_well)


def in_state(state: State) -> Keeper:
    keeper = Keeper(ME, NodeMemory(epoch=4), state=state)
    holds = state in (State.TAKING, State.MASTER, State.SHAKY, State.LEAVING, State.STOPPING, State.LOST)
    return attrs.evolve(keeper, held=HELD) if holds else keeper


@pytest.mark.parametrize(
    ("state", "master", "replica", "healthy"),
    [
        (State.OFF, 503, 503, 503),
        (State.WAIT, 503, 503, 503),
        (State.FOLLOW, 503, 200, 200),
        (State.BARRED, 503, 503, 200),
        (State.CAMPAIGN, 503, 200, 200),
        (State.TAKING, 503, 503, 200),
        (State.MASTER, 200, 503, 200),
        (State.SHAKY, 200, 503, 200),
        (State.LEAVING, 503, 503, 200),
        (State.STOPPING, 503, 503, 200),
        (State.LOST, 503, 503, 503),
        (State.DOUBT, 503, 503, 503),
    ],
)
def test_each_state_has_its_words(
    state: State, master: int, replica: int, healthy: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = health(in_state(state), monkeypatch)

    assert told.page("/master").status == master
    assert told.page("/replica").status == replica
    assert told.page("/health").status == healthy
    assert json.loads(told.page("/master").body)["state"] == state.value


def test_a_master_refuses_before_its_daemons_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = in_state(State.MASTER)

    assert health(keeper, monkeypatch, NOW + TIMES.stop_s - 0.001).page("/master").status == 200
    late = health(keeper, monkeypatch, NOW + TIMES.stop_s).page("/master")
    assert late.status == 503
    assert json.loads(late.body)["valid_s"] == pytest.approx(TIMES.deadline_s - TIMES.stop_s)


def test_a_check_tells_for_how_long_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    told = json.loads(health(in_state(State.MASTER), monkeypatch).page("/master").body)

    assert (told["epoch"], told["master"], told["valid_s"]) == (4, "node1.test", TIMES.deadline_s)


def test_liveness_is_that_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = in_state(State.FOLLOW)

    assert health(keeper, monkeypatch).page("/liveness").status == 200
    assert health(keeper, monkeypatch, is_well=False).page("/liveness").status == 503


def test_other_paths_and_methods_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    told = health(in_state(State.FOLLOW), monkeypatch)

    assert told.page("/primary").status == 404
    assert told.page("/master", "POST").status == 405
    assert told.page("/replica", "OPTIONS").status == 200
    assert health(None, monkeypatch).page("/health").status == 503
