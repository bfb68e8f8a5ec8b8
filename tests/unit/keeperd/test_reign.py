"""The machine hears of the end of each campaign, whatever fails in it. Source: `daemons/keeperd/reign.py`."""

from types import SimpleNamespace
from typing import cast

import trio

from daemons.keeperd.core.acts import Campaign
from daemons.keeperd.core.events import CampaignLost, Event
from daemons.keeperd.reign import Parts, Reign
from daemons.keeperd.tasks import Tasks


class NamelessNodes:
    """The file with the addresses of the nodes cannot be read."""

    async def highest_epoch(self) -> int:
        raise PermissionError("the addresses of the nodes cannot be read")


def test_campaign_that_fails_by_itself_is_a_lost_one() -> None:
    heard: list[Event] = []

    async def campaign() -> None:
        async with trio.open_nursery() as nursery:
            parts = cast(Parts, SimpleNamespace(teller=NamelessNodes()))
            reign = Reign(parts, Tasks(nursery), heard.append, lambda: None)
            await reign.campaign(Campaign(above=0, epoch_revision=0))

    trio.run(campaign)

    assert heard == [CampaignLost("the addresses of the nodes cannot be read")]
