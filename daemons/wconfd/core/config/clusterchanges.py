"""Setting values of the cluster. Pure.

Theory. A job that changes parameters has read the cluster as a whole. Meanwhile ports are allocated and returned, which
raises no serial number; so only the changed values are sent, and values with a way of their own are refused.

Source: wconfd.md 2.3, 7.3 and 7.6.
"""

from collections.abc import Mapping
from typing import Final

import attrs

from common.errors import ConfigurationError, Conflict, InvalidRequest
from common.objects.cluster import Cluster
from common.objects.codec import decode_object, to_json
from common.objects.config import Config
from daemons.wconfd.core.config.configstate import advanced
from daemons.wconfd.core.config.deliveries import Stamp
from daemons.wconfd.core.config.objects import touched
from daemons.wconfd.core.config.verify import find_problems

# keys that other calls change, or nothing
_OTHERS: Final = (
    *("uuid", "serial_no", "ctime", "mtime", "tags"),
    *("master_node", "candidate_certs", "candidate_pool_size", "highest_used_port", "tcpudp_port_pool"),
)


def change_cluster(
    config: Config, values: Mapping[str, object], serial_no: int, now: float, told: Stamp | None = None
) -> tuple[Config, Stamp]:
    """Set the values; return the configuration, with the cluster's serial number and time.

    Args:
        serial_no: serial number of the cluster when the caller read it.
        now: seconds since the epoch.
        told: result of the first delivery of this very call, if there was one.
    Raises:
        InvalidRequest: an unknown key, a wrong value, or a key that other calls change.
        ConfigurationError: the cluster was changed since it was read.
        Conflict: the configuration would be unsound; the message says why.
    """
    if told:
        return config, told
    before = config.cluster
    if foreign := [key for key in values if key in _OTHERS]:
        raise InvalidRequest(f"'{foreign[0]}' of the cluster is changed by another call, or never")
    if before.serial_no != serial_no:
        raise ConfigurationError(
            f"the cluster was changed since it was read: its serial number is {before.serial_no}, not {serial_no}; "
            "read it again",
            uuid=before.uuid,
        )
    after = touched(decode_object({**to_json(before), **values}, Cluster, "cluster"), now)
    changed = advanced(config, attrs.evolve(config, cluster=after), now)
    known = find_problems(config)
    if problems := [problem for problem in find_problems(changed) if problem not in known]:
        raise Conflict(f"the cluster cannot be changed so: {problems[0]}")
    return changed, (after.serial_no, after.mtime)
