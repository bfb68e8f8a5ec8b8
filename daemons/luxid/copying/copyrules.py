"""The rules by which the candidates get copies."""

import attrs

from daemons.luxid.copying.copyturns import GATHER_S


@attrs.frozen
class CopyRules:
    # port of all node daemons
    port: int
    # name of this node
    own_name: str
    # whether changes wait for the attempt to copy them
    waits: bool = True
    # whether the mastership is held under a lease: the configuration may name the master before
    has_lease: bool = False

    @property
    def gather_s(self) -> float:
        """Seconds in which changes are gathered before they are sent; 0: somebody waits for each of them."""
        return 0.0 if self.waits else GATHER_S
