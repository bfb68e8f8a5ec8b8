"""Whether other nodes have the configuration of the master: calls of ours.

Source: DESIGN section 12.
"""

import attrs

from common.shapes import Lenient
from protocol.messages import Request


@attrs.frozen
class ConfigVerdict(Lenient):
    """What a comparison with one node has shown."""

    node: str
    # seconds since 1970 of the comparison; null: there was none yet, or it failed
    at: float | None = None
    # number of files that differed, and the names of the first ones; they were sent since, if that was possible
    differ: int = 0
    files: tuple[str, ...] = ()
    # why the node could not be asked; null: it was
    failure: str | None = None


@attrs.frozen
class VerifyConfigCopies(Request[tuple[ConfigVerdict, ...]]):
    """Compare config.data with all other candidates, and ssconf with all other nodes; none where nothing is copied.

    `asks`: whether the nodes are asked now; false: what the last comparison has shown.
    """

    METHOD = "verifyConfigCopies"
    asks: bool = True
