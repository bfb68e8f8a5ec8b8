"""What others may hear of copies on their way."""

from collections.abc import Callable, Iterable
from typing import Final

import attrs

from daemons.luxid.core.copies.backlog import Key


def _nothing(*_: object) -> None:
    pass


@attrs.frozen
class SenderEvents:
    """Hears what candidates get."""

    # a candidate may have got some of these
    sent: Callable[[Iterable[Key]], None] = _nothing
    # a candidate was compared, or does not reply
    standing_changed: Callable[[], None] = _nothing
    # other nodes are candidates
    candidates_changed: Callable[[], None] = _nothing


NOBODY: Final = SenderEvents()
