"""The cluster, as far as luxid serves it; the facts are wconfd's.

Source: luxid.md 2.2, 2.8.
"""

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from common.errors import Unavailable
from common.objects.index import ConfigIndex
from common.paths import Paths
from common.system.daemons.program import release
from common.wire import unstructure
from daemons.luxid.config.configcache import ConfigCache
from daemons.luxid.core.query.clusterfacts import cluster_facts
from protocol.luxi.cluster import QUEUE_LAGS, QueryClusterInfo, QueryConfigValues, QueueLag
from protocol.luxi.daemon.copies import QUEUE_VERDICTS, QueueVerdict
from protocol.luxi.queries import FieldValue
from protocol.peer import Peer

# versions of Ganeti 3.0, whose protocol this is
PROTOCOL_VERSION: Final = 3000000
OS_API_VERSION: Final = 20
EXPORT_VERSION: Final = 0


class ClusterFacts:
    """The methods about the cluster.

    Args:
        told_release: version reported to clients; empty: our own.
        lags: what the candidates lack of the queue; None: it is not copied.
        verdicts: what the last comparisons with the candidates have shown, likewise.
    """

    def __init__(
        self,
        paths: Paths,
        config: ConfigCache,
        told_release: str = "",
        lags: Callable[[], Sequence[QueueLag]] | None = None,
        verdicts: Callable[[], Sequence[QueueVerdict]] | None = None,
    ) -> None:
        self._paths = paths
        self._config = config
        self._release = told_release or release()
        self._lags = lags
        self._verdicts = verdicts

    async def query_config_values(self, call: QueryConfigValues, peer: Peer) -> tuple[FieldValue, ...]:
        """Raises:
        ConfigurationMissing: a value of the configuration is requested, and cannot be read.
        Unavailable: the watcher's pause is requested, and its file cannot be read at the moment.
        """
        config = await self._config.current() if any(name in _FROM_CONFIG for name in call.names) else None
        return tuple(self._value(name, config) for name in call.names)

    async def query_cluster_info(self, call: QueryClusterInfo, peer: Peer) -> Mapping[str, FieldValue]:
        """Raises: ConfigurationMissing."""
        return {
            "software_version": self._release,
            "protocol_version": PROTOCOL_VERSION,
            "os_api_version": OS_API_VERSION,
            "export_version": EXPORT_VERSION,
            "vcs_version": self._release,
            "architecture": ["64bits" if platform.machine().endswith("64") else "32bits", platform.machine()],
            **cluster_facts(await self._config.current()),
        }

    def _value(self, name: str, config: ConfigIndex | None) -> FieldValue:
        if name == "drain_flag":
            return self._paths.drain_file.exists()
        if name == "watcher_pause":
            return _watcher_pause(self._paths)
        if name == QUEUE_LAGS:
            return None if self._lags is None else unstructure(self._lags())
        if name == QUEUE_VERDICTS:
            return None if self._verdicts is None else unstructure(self._verdicts())
        read = _FROM_CONFIG.get(name)
        return read(config) if read is not None and config is not None else None


_FROM_CONFIG: Final[Mapping[str, Callable[[ConfigIndex], FieldValue]]] = {
    "cluster_name": lambda config: config.config.cluster.cluster_name,
    "master_node": lambda config: config.master_name,
    "modify_ssh_setup": lambda config: config.config.cluster.modify_ssh_setup,
    "ssh_key_type": lambda config: config.config.cluster.ssh_key_type.value,
    "ssh_key_bits": lambda config: config.config.cluster.ssh_key_bits,
}


def _watcher_pause(paths: Paths) -> int | None:
    """The end of the pause, in seconds since the epoch; None: there is no pause, or it is over.

    Raises: Unavailable: the file cannot be read at the moment.
    """
    try:
        until = int(paths.watcher_pause.read_text())
    except (FileNotFoundError, ValueError):
        return None
    except OSError as error:
        raise Unavailable(f"'{paths.watcher_pause}' cannot be read: {error.strerror or error}; try again") from error
    return until if until > time.time() else None
