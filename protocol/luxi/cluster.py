"""The cluster and its settings.

Source: luxid.md section 2.
"""

from collections.abc import Mapping

import attrs

from protocol.luxi.queries import FieldValue
from protocol.messages import Request


@attrs.frozen
class QueryConfigValues(Request[tuple[FieldValue, ...]]):
    """The values of the named settings of the cluster; null for an unknown name."""

    METHOD = "QueryConfigValues"
    names: tuple[str, ...]


@attrs.frozen
class QueryClusterInfo(Request[Mapping[str, FieldValue]]):
    """The cluster object and information about this daemon (luxid.md 2.8)."""

    METHOD = "QueryClusterInfo"
