"""Remove what is kept no longer, over HTTP.

Source: DESIGN sections 15 and 16.
"""

from daemons.rapid.calls import Asked
from protocol.luxi.history import Prune
from protocol.rapid.prunes import PruneWish, Removed


class Prunes:
    """The call that removes."""

    async def prune(self, asked: Asked) -> Removed:
        """Raises: Denied: the caller may only ask what would be removed. Unavailable: it cannot be done now."""
        done = await asked.daemons.luxid(Prune(asked.body_as(PruneWish).dry_run))
        return Removed(
            archived=done.archived,
            jobs=done.jobs,
            outputs=done.outputs,
            output_bytes=done.output_bytes,
            waits=done.waits,
            keys=done.keys,
            rows=done.rows,
            oldest=done.oldest,
            newest=done.newest,
            left=done.left,
        )
