"""Whether the settings name an etcd, for commands that make a cluster with a lease."""

from common.errors import InvalidRequest
from common.settings import Settings


def check_etcd_named(settings: Settings) -> None:
    """Raises: InvalidRequest: the cluster has a lease, and no member of etcd is named, or one by no URL."""
    if not settings.cluster.has_lease:
        return
    if not settings.etcd.endpoints:
        raise InvalidRequest(
            'replication = "etcd" needs an etcd: name its members in [etcd] of gantry.toml, as in '
            'endpoints = ["https://10.0.0.1:2379"]; deploy/etcd tells how to run one'
        )
    # imported late: most installations are one machine
    from protocol.etcd.address import EtcdAddress

    EtcdAddress.of(settings)
