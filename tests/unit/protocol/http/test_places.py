"""Places for connections: who makes room for whom."""

import pytest
import trio

from protocol.http.connections import ConnectionSlot, ConnectionSlots


async def stay(places: ConnectionSlots, taken: list[ConnectionSlot]) -> None:
    """A connection that stays until its place is needed."""
    await places.wait()
    with places.hold() as place:
        taken.append(place)
        await trio.sleep_forever()


@pytest.mark.trio
async def test_the_oldest_idle_one_makes_room_and_a_busy_one_stays() -> None:
    places, taken = ConnectionSlots(2, spare=1), list[ConnectionSlot]()
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(stay, places, taken)
            await trio.testing.wait_all_tasks_blocked()
        # it became idle later than the second one
        places.set_idle(taken[0], False)
        places.set_idle(taken[0], True)

        nursery.start_soon(stay, places, taken)
        await trio.testing.wait_all_tasks_blocked()

        assert [place.has_ended for place in taken] == [False, True, False]
        assert ([place.is_spare for place in taken], places.taken) == ([False] * 3, 2)
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_where_all_are_busy_a_few_more_are_let_in_to_be_refused_and_others_wait() -> None:
    places, taken = ConnectionSlots(1, spare=1), list[ConnectionSlot]()
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(stay, places, taken)
            await trio.testing.wait_all_tasks_blocked()
            places.set_idle(taken[-1], False)

        assert [(place.is_spare, place.has_ended) for place in taken] == [(False, False), (True, False)]
        taken[1].scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert len(taken) == 3
        nursery.cancel_scope.cancel()
    assert places.taken == 0


@pytest.mark.trio
async def test_without_spare_places_nobody_is_closed_and_others_wait() -> None:
    places, taken = ConnectionSlots(1, spare=0), list[ConnectionSlot]()
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(stay, places, taken)
            await trio.testing.wait_all_tasks_blocked()

        assert (len(taken), taken[0].has_ended, taken[0].is_spare) == (1, False, False)
        nursery.cancel_scope.cancel()
