"""Gauges: what is taken of a limit."""

import pytest

from daemons.rapid.page.templates import draw
from daemons.rapid.page.views.boards import FilterPage
from daemons.rapid.page.views.things import BucketLine


@pytest.mark.parametrize(("running", "is_over"), [(0, False), (2, False), (25, True)])
def test_only_a_bucket_over_its_limit_is_a_warning(running: int, is_over: bool) -> None:
    view = FilterPage((), (BucketLine("2:disk", running, 2, 0),), 1, may_write=False, may_drain=False)

    drawn = draw("parts/buckets", view=view)

    assert ('class="over"' in drawn) is is_over
    assert f'value="{running}" aria-label="places taken of 2:disk"' in drawn
