"""The certificates that node daemons obey: a digest for each master candidate. Pure.

Source: noded.md 3.
"""

import attrs

from common.objects.config import Config
from daemons.wconfd.core.config.configstate import advanced
from daemons.wconfd.core.config.objects import touched


def with_masters(config: Config, digest: str, now: float) -> Config:
    """The configuration with the master's certificate; one that is there stays: only it is known to the nodes.

    Args:
        digest: of the certificate with which the master calls nodes.
        now: seconds since the epoch.
    """
    cluster = config.cluster
    if cluster.master_node in cluster.candidate_certs:
        return config
    certs = {**cluster.candidate_certs, cluster.master_node: digest}
    after = touched(attrs.evolve(cluster, candidate_certs=certs), now)
    return advanced(config, attrs.evolve(config, cluster=after), now)
