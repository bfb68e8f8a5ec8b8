"""Changes of the cluster's parameters; ours.

Source: wconfd.md 2.3 and 7.3.
"""

import attrs

from common.shapes import JsonObject
from protocol.messages import Request
from protocol.wconfd.changes import Stamp


@attrs.frozen(kw_only=True)
class ChangeCluster(Request[Stamp | None]):
    """Set some values of the cluster, and leave all others: ports are taken and freed without its serial number.

    Returns serial number and time of the cluster after the change; null, and nothing is changed, while an owner holds
    `cluster/config`.
    """

    METHOD = "changeCluster"
    # key of the cluster -> value; null: none
    values: JsonObject
    # serial number of the cluster when it was read
    serial_no: int
