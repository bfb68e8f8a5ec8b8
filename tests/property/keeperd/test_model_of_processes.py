"""A stopped process of the simulated cluster hears all when it runs again, and nothing before."""

from tests.property.keeperd.torment import Plan, Torment
from tests.property.keeperd.world import Process, World


def test_process_that_is_resumed_hears_at_once_what_came_before_in_order() -> None:
    world, process, heard = World(1), Process(stopped_until=3600.0), list[int]()
    for number in range(3):
        world.deliver(process, lambda number=number: heard.append(number))  # type: ignore[misc]
    world.run(100.0)
    assert not heard

    world.resume(process)

    assert heard == [0, 1, 2]
    world.run(4000.0)
    assert heard == [0, 1, 2]


def test_process_that_is_stopped_for_longer_hears_when_it_wakes() -> None:
    world, process, heard = World(1), Process(stopped_until=10.0), list[float]()
    world.deliver(process, lambda: heard.append(world.now))

    process.stopped_until = 30.0
    world.run(100.0)

    assert heard == [30.0]


def test_process_that_ended_while_it_was_stopped_hears_nothing() -> None:
    world, process, heard = World(1), Process(stopped_until=10.0), list[float]()
    world.deliver(process, lambda: heard.append(world.now))

    process.is_alive = False
    world.run(100.0)

    assert not heard


def test_keeperd_that_was_suspended_looks_again_and_again_after_a_calm() -> None:
    torment = Torment(1, Plan())
    node = torment.cluster.nodes["n1"]
    torment.world.run(60.0)
    node.stop(100_000.0, keeperd=True, servants=True)
    torment.world.run(90.0)

    torment._calm()
    # no watch tells it
    torment.world.watchers.clear()
    node.old_view = None
    torment.world.run(torment.world.now + 20.0)

    assert node.old_view is not None
