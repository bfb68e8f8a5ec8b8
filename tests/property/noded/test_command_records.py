"""The records of a command against a twin that only counts: one execution, and no proof that turns out wrong.

Whatever dies between any two steps, and whatever calls come at the same time (DESIGN section 13).
"""

import random
from collections.abc import Callable

from protocol.noded.commands import CommandPhase
from tests.property.noded.commandworld import Steps, World

EPISODES = 3000
ACTIONS = 70
# a caller frees the locks of the job when it hears one of these
PROOFS = (CommandPhase.ENDED, CommandPhase.LOST, CommandPhase.VOID)


class Twin:
    """What must hold, whatever the records say."""

    def __init__(self) -> None:
        self.world = World(self.hear)
        # how often the program had begun when the last proof was given
        self.begun_at_proof: int | None = None
        self.outcomes: set[CommandPhase] = set()

    def hear(self, verb: str, phase: CommandPhase) -> None:
        # that a key is unknown proves nothing to a follower; a start that hears it has come too late
        if phase in PROOFS or (verb == "start" and phase is CommandPhase.UNKNOWN):
            assert not any(program.is_running for program in self.world.programs), (verb, phase)
            self.begun_at_proof = len(self.world.programs)
        if phase in PROOFS:
            self.outcomes.add(phase)

    def check(self) -> None:
        count = len(self.world.programs)
        assert count <= 1, "it ran twice"
        assert self.begun_at_proof in (None, count), "it began after a proof that it would not"
        assert len(self.outcomes) <= 1, f"several outcomes: {self.outcomes}"
        assert CommandPhase.VOID not in self.outcomes or not count, "it is void and has run"
        # or a start that is sent again would run it again
        durable = self.world.durable
        assert not count or durable.start is not None or durable.is_forgotten, "a loss of power forgets that it ran"


def live(seed: int) -> Twin:
    """An episode of random actions. Raises: AssertionError: something does not hold."""
    dice, twin = random.Random(seed), Twin()
    world = twin.world

    def go_on(processes: list[Steps]) -> None:
        if not processes:
            return
        process = dice.choice(processes)
        for _ in range(dice.randint(1, 12)):
            try:
                next(process)
            except StopIteration:
                processes.remove(process)
                return

    def end_programs() -> None:
        for program in world.programs:
            world.end_program(program)

    actions: dict[Callable[[], object], float] = {
        lambda: world.calls.append(world.start(dice.choice("aaab"))): 2,
        lambda: world.calls.append(world.stop()): 0.7,
        lambda: world.calls.append(world.forget()): 0.7,
        lambda: world.calls.append(world.follow()): 1,
        lambda: go_on(world.calls): 8,
        lambda: go_on(world.runners): 5,
        world.fork: 3,
        end_programs: 0.7,
        world.kill_noded: 0.3,
        world.kill_fork_server: 0.1,
        lambda: world.kill_runner(dice.randrange(9)): 0.3,
        world.write_back: 0.3,
        world.lose_power: 0.15,
    }
    for action in dice.choices(list(actions), list(actions.values()), k=ACTIONS):
        action()
        twin.check()
    return twin


def test_a_command_runs_at_most_once_and_each_proof_holds() -> None:
    seen: set[CommandPhase] = set()
    ran = 0
    for seed in range(EPISODES):
        try:
            twin = live(seed)
        except AssertionError as error:
            raise AssertionError(f"episode {seed}: {error}") from error
        seen |= twin.outcomes
        ran += bool(twin.world.programs)

    # the episodes come everywhere
    assert seen == set(PROOFS)
    assert EPISODES * 0.2 < ran < EPISODES * 0.9
