"""After a change of users or tokens: the other nodes get it, so that a failover brings nothing back.

Source: noded.md 8; `OP_CLUSTER_REDIST_CONF`.
"""

from cli.connection import open_luxid
from cli.screen import remark, warn
from common.daemons import Place
from common.errors import GantryError
from common.nodes.nodeplace import place_of
from common.settings import Settings
from protocol.luxi.submission import SubmitJob


def spread(settings: Settings) -> None:
    """Send the files to the other nodes, by a job, and tell what else there is to do."""
    if not settings.rapid.enabled:
        remark("nobody can call yet: set 'enabled = true' in '[rapid]' of the settings, and start the daemons again")
    if not settings.cluster.has_nodes:
        return
    if place_of(settings) is not Place.MASTER:
        warn("this node is not the master, whose files replace these; make the change there ('gnt-cluster getmaster')")
        return
    try:
        with open_luxid(is_patient=False) as client:
            job_id = client.call(SubmitJob(({"OP_ID": "OP_CLUSTER_REDIST_CONF"},)))
    except GantryError as error:
        warn(f"the other nodes do not have it yet ({error.message}); send it later with: gnt-cluster redist-conf")
    else:
        remark(f"job {job_id} sends it to the other nodes")
