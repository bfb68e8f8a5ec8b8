"""Rounds at nodes, with a node that does not always reply (DESIGN sections 13 and 14; `core/orphans.py`).

The node is the oracle: it knows what really runs. However calls are lost, whoever dies when: orphaned locks are
released only when nothing of their command runs or can begin, commands of living jobs are left alone, and at last
all orphans are gone.
"""

from hypothesis import given
from hypothesis import strategies as st

from daemons.luxid.core.orphans import Concern, Round, round_at
from protocol.noded.commands import CommandPhase

PHASES = list(CommandPhase)
KEYS = [f"{job}.0.1" for job in range(1, 6)]
NOTHING_RUNS = {CommandPhase.ENDED, CommandPhase.LOST, CommandPhase.VOID}


class Node:
    """Commands of a node; `forgotten` ones are told as unknown, and cannot be started."""

    def __init__(self, phases: dict[str, CommandPhase]) -> None:
        self.phases = dict(phases)
        self.forgotten: set[str] = set()
        self.stops: list[str] = []

    def told(self) -> dict[str, CommandPhase]:
        return {key: phase for key, phase in self.phases.items() if phase is not CommandPhase.UNKNOWN}

    def start(self, key: str) -> None:
        """A start that was on its way arrives."""
        if self.phases[key] is CommandPhase.UNKNOWN and key not in self.forgotten:
            self.phases[key] = CommandPhase.RUNNING

    def stop(self, key: str) -> CommandPhase:
        self.stops.append(key)
        if self.phases[key] is CommandPhase.UNKNOWN and key not in self.forgotten:
            self.phases[key] = CommandPhase.VOID
        return self.phases[key]

    def forget(self, keys: tuple[str, ...]) -> None:
        for key in keys:
            if self.phases[key] in NOTHING_RUNS:
                self.phases[key] = CommandPhase.UNKNOWN
                self.forgotten.add(key)

    def let_end(self, key: str, is_kept: bool) -> None:  # drawn by hypothesis
        if self.phases[key] is CommandPhase.RUNNING and is_kept:
            self.phases[key] = CommandPhase.KEPT
        elif self.phases[key].may_run:
            self.phases[key] = CommandPhase.ENDED

    def is_proven(self, key: str) -> bool:
        """Whether nothing of it runs, or ever will."""
        return self.phases[key] in NOTHING_RUNS or key in self.forgotten


def carry_out(node: Node, orphans: set[str], stopped: set[str], concern: Concern, losses: list[bool]) -> Round | None:
    """A round as the shell does it; None: a call was lost. Each release is checked against the node."""

    def is_lost() -> bool:
        return bool(losses and losses.pop())

    if is_lost():
        return None
    told = node.told()
    for key in round_at(orphans, told, stopped, concern).stop:
        phase = node.stop(key)
        if is_lost():
            return None
        told[key] = phase
        stopped.add(key)
    done = round_at(orphans, told, stopped, concern)
    for key in (key for keys in done.ended.values() for key in keys):
        assert node.is_proven(key), key
        assert concern.is_over(key)
        orphans.discard(key)
    if not is_lost():
        node.forget(done.forget)
    return done


@given(
    phases=st.fixed_dictionaries({key: st.sampled_from(PHASES) for key in KEYS}),
    over=st.sets(st.sampled_from(KEYS)),
    orphans=st.sets(st.sampled_from(KEYS)),
    to_end=st.sets(st.sampled_from(KEYS)),
    losses=st.lists(st.booleans(), max_size=12),
    steps=st.lists(
        st.tuples(st.sampled_from(["start", "end", "restart"]), st.sampled_from(KEYS), st.booleans()), max_size=12
    ),
)
def test_orphaned_locks_are_released_when_nothing_runs_and_then_always(
    phases: dict[str, CommandPhase],
    over: set[str],
    orphans: set[str],
    to_end: set[str],
    losses: list[bool],
    steps: list[tuple[str, str, bool]],
) -> None:
    node, stopped, left = Node(phases), set[str](), set(orphans)
    concern = Concern(over.__contains__, to_end.__contains__)
    kept_at_first = {key for key in KEYS if phases[key] is CommandPhase.KEPT}

    for step, key, flag in steps:
        if step == "start":
            node.start(key)
        elif step == "end":
            node.let_end(key, flag)
        else:
            stopped.clear()
        carry_out(node, left, stopped, concern, losses)
    losses.clear()
    for _ in range(3):
        for key in KEYS:
            node.let_end(key, False)
        carry_out(node, left, stopped, concern, losses)

    assert left == orphans - over
    assert set(node.stops) <= over
    assert not kept_at_first & set(node.stops) - to_end - {key for step, key, _ in steps if step == "start"}


def test_a_command_of_an_ended_job_is_stopped_and_forgotten_without_any_ghost() -> None:
    concern = Concern(lambda _: True, lambda _: False)
    told = {"1.0.1": CommandPhase.RUNNING, "2.0.1": CommandPhase.ENDED, "3.0.1": CommandPhase.KEPT}

    done = round_at(frozenset(), told, (), concern)

    assert (done.stop, done.forget) == (("1.0.1",), ("2.0.1",))
    assert not done.ended
    assert not done.follow


def test_what_a_node_does_not_know_may_be_on_its_way_until_it_was_stopped() -> None:
    concern = Concern(lambda _: True, lambda _: False)
    orphans = {"1.0.1"}

    assert round_at(orphans, {}, (), concern) == Round(stop=("1.0.1",))

    [word] = round_at(orphans, {"1.0.1": CommandPhase.VOID}, orphans, concern).ended
    assert word == "its command was never started, and will not be"
    [word] = round_at(orphans, {}, orphans, concern).ended
    assert word == "its command has ended, and is forgotten"
