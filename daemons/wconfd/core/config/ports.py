"""TCP and UDP ports for instances: those given back first, then the next one.

Source: wconfd.md 2.3.
"""

from typing import Final

import attrs

from common.errors import ConfigurationError
from common.objects.config import Config
from daemons.wconfd.core.config.configstate import advanced

LAST_PORT: Final = 14999


def allocate_port(config: Config, now: float) -> tuple[Config, int]:
    """Raises: ConfigurationError: all are in use."""
    cluster = config.cluster
    if cluster.tcpudp_port_pool:
        port, *rest = cluster.tcpudp_port_pool
        after = attrs.evolve(cluster, tcpudp_port_pool=tuple(rest))
    elif cluster.highest_used_port >= LAST_PORT:
        raise ConfigurationError(
            f"no port is free: the highest used one is {cluster.highest_used_port}, the last possible one {LAST_PORT}; "
            "give ports back with addTcpUdpPort"
        )
    else:
        port = cluster.highest_used_port + 1
        after = attrs.evolve(cluster, highest_used_port=port)
    return advanced(config, attrs.evolve(config, cluster=after), now), port


def add_port(config: Config, port: int, now: float) -> Config:
    """Give a port back: it is the next to be taken."""
    return advanced(config, with_free_port(config, port), now)


def with_free_port(config: Config, port: int) -> Config:
    """With the port in front of the pool, once."""
    pool = (port, *(other for other in config.cluster.tcpudp_port_pool if other != port))
    return attrs.evolve(config, cluster=attrs.evolve(config.cluster, tcpudp_port_pool=pool))
