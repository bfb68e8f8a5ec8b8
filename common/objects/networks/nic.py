"""A network interface of an instance.

Source: wconfd.md 7.3.
"""

import attrs

from common.objects.kinds import NetworkUuid
from common.objects.params import PartialNicParams


@attrs.frozen(kw_only=True)
class Nic:
    mac: str
    ip: str | None = None
    nicparams: PartialNicParams
    network: NetworkUuid | None = None
    name: str | None = None
    uuid: str
