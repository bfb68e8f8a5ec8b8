"""The machine hears of the end of each campaign, whatever fails in it. Source: `daemons/keeperd/shell.py`."""

from types import SimpleNamespace
from typing import cast

import trio

from daemons.keeperd.core.words import Campaign, CampaignLost, Event
from daemons.keeperd.shell import Parts, Shell
from tests.unit.keeperd.playing import ME


class NamelessNodes:
    """The file with the addresses of the nodes cannot be read."""

    async def highest_epoch(self) -> int:
        raise PermissionError("the addresses of the nodes cannot be read")


def test_campaign_that_fails_by_itself_is_a_lost_one() -> None:
    heard: list[Event] = []

    class Hearing(Shell):
        def report(self, event: Event) -> None:
            heard.append(event)

    shell = Hearing(ME)
    shell._parts = cast(Parts, SimpleNamespace(teller=NamelessNodes()))

    trio.run(shell._campaign, Campaign(above=0, epoch_revision=0))

    assert heard == [CampaignLost("the addresses of the nodes cannot be read")]
