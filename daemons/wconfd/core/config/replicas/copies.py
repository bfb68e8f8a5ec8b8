"""Whether other nodes are to have copies of configuration and queue, where no daemon makes them.

Source: wconfd.md 7.5; DESIGN section 12.
"""

from typing import Final

from common.errors import Conflict
from common.objects.config import Config

_MOST_NAMES: Final = 5


def check_copies(config: Config) -> None:
    """Refuse a configuration that has master candidates beside the master.

    Raises: Conflict: it has; the message names them and says what to do.
    """
    others = sorted(
        node.name for node in config.nodes.values() if node.master_candidate and node.uuid != config.cluster.master_node
    )
    if not others:
        return
    more = ", ..." if len(others) > _MOST_NAMES else ""
    raise Conflict(
        f"the cluster has {len(others)} master candidates beside the master ({', '.join(others[:_MOST_NAMES])}{more}), "
        "and nobody copies the configuration and the queue to them: all would be lost with this machine; make "
        "candidates of none but the master (gnt-node modify --master-candidate=no NODE), let copies be made by "
        "'replication = \"nodes\"' in '[cluster]', or accept that by 'allow_uncopied = true' in '[ganeti]'",
        nodes=len(others),
    )
