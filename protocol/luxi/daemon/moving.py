"""The call of luxid by keeperd that prepares the move of the mastership to another node; ours.

Source: DESIGN section 14; lease.md 7.
"""

import attrs

from protocol.messages import Request


@attrs.frozen
class PrepareMove(Request[None]):
    """Take and start nothing more, and return when nothing of a job runs here but what goes on elsewhere.

    Submissions wait, or are refused as at a busy time: "the mastership is being moved". Commands on nodes go on, and
    are taken up by the next master. It holds as long as the caller's connection: when that ends, also after the reply,
    luxid takes and starts work again.
    """

    METHOD = "gantry_prepare_move"
    # whether jobs that run on this node are killed; false: they are waited for
    kill: bool
