"""The cluster and its settings.

Source: luxid.md section 2.
"""

from collections.abc import Mapping
from typing import Final

import attrs

from common.shapes import Row
from protocol.luxi.queries import FieldValue
from protocol.messages import Request

# a name of ours for QueryConfigValues: what the candidates lack of the queue, null if it is not copied
QUEUE_LAGS: Final = "queue_lags"


@attrs.frozen
class QueueLag(Row):
    """What a candidate lacks of the queue; a list of these is the value of `QUEUE_LAGS`."""

    node: str
    # number of files, as far as is known before they were compared
    files: int
    # for how long it has lacked something
    seconds: float
    # why the last attempt failed; null: it did not
    failure: str | None


@attrs.frozen
class QueryConfigValues(Request[tuple[FieldValue, ...]]):
    """The values of the named settings of the cluster; null for an unknown name."""

    METHOD = "QueryConfigValues"
    names: tuple[str, ...]


@attrs.frozen
class QueryClusterInfo(Request[Mapping[str, FieldValue]]):
    """The cluster object and information about this daemon (luxid.md 2.8)."""

    METHOD = "QueryClusterInfo"
