"""The distribution of durable changes of the configuration to the nodes.

Theory. It is the interface of `common.replication` for wconfd's writes. A change reaches others at three moments:
`commit_first`, before it is written here, where a majority must have it before this node has; `commit`, after which it
counts; and `spread`, which sends it to every node that should have it, in the background. The change of the
configuration is committed, not a file: of thousands of objects one may differ.

Source: wconfd.md 7.5 and 7.9; DESIGN sections 12 and 14.
"""

import contextlib
from collections.abc import Mapping
from typing import Final, Protocol

import attrs
import trio

from common.clusterinit import ssconf_writes
from common.durable.atomicfile import FileWrite, write_files
from common.errors import Conflict
from common.objects.config import Config
from common.objects.kinds import NodeUuid
from common.objects.ssconf import MAX_BYTES, RELEASE_VERSION, file_content, ssconf_values
from common.paths import Paths
from common.system.inthread import try_in_thread
from common.system.log import get_log
from daemons.wconfd.core.config.configstate import ConfigState
from protocol.wconfd.config import NodeBehind
from protocol.wconfd.daemon import ConfigVerdict

_log: Final = get_log(__name__)


@attrs.frozen
class ConfigChange:
    """A change of the configuration, or several that share a write."""

    before: ConfigState
    after: ConfigState
    # kept beside the file (`configfile.ConfigFile`), before and after
    note_before: bytes
    note: bytes


class ConfigDistribution(Protocol):
    """Sends configuration and ssconf values to the nodes that should have them."""

    def commit_first(self, change: ConfigChange) -> None:
        """Commit a change in the cluster, which is then written here; in the writer's thread, in order.

        Raises:
            Unavailable: it is not committed, and nothing has changed.
            NoLongerMaster: another node is the master; nothing may be written here.
        """
        ...

    def take_back(self, change: ConfigChange) -> None:
        """Undo `commit_first` for a change that could not be written here; in the writer's thread.

        It returns when that is committed, however long it takes: what this node has is what the cluster has.

        Raises: NoLongerMaster.
        """
        ...

    def commit(self, before: ConfigState, after: ConfigState) -> None:
        """Pass a change that is durable here to the other nodes before it is visible; in the writer's thread, in order.

        Changes made meanwhile wait, and share the next call. It returns within its own time limit.

        Raises:
            NotCopied: other nodes lack the change for now. It counts nevertheless.
            NoLongerMaster: another node is the master; the change may be lost, and nothing more may be written here.
        """
        ...

    async def spread(
        self, state: ConfigState, only: frozenset[NodeUuid] | None = None, *, anew: bool = False
    ) -> frozenset[NodeUuid]:
        """Send the state to the nodes; return when each of them was tried, or after a bounded time.

        Args:
            only: nodes to send to; None: all.
            anew: send also what a node already has, and ask nodes that are left alone after failures.
        Returns:
            The nodes that were not reached; offline ones, which are not asked, may be left out of them.
        Raises:
            OSError: the files of this node could not be written.
            NoLongerMaster: another node is the master.
        """
        ...

    def behind(self) -> tuple[NodeBehind, ...]:
        """The online nodes that lack the latest state, as far as known, by name; none if nothing is copied."""
        ...

    async def check(self, *, asks: bool) -> tuple[ConfigVerdict, ...]:
        """Compare with the other nodes that should have the state, by name; none if nothing is copied.

        Args: asks: whether the nodes are asked now; false: what the last comparison has shown.
        """
        ...


class LocalDistribution:
    """Serves only this node, the master: its ssconf files. It reports all other nodes as not reached."""

    def __init__(self, paths: Paths, release: str = "") -> None:
        self._paths = paths
        self._release = release or RELEASE_VERSION
        self._written: dict[str, bytes] = {}
        self._gate = trio.Lock()

    def commit_first(self, change: ConfigChange) -> None:
        pass

    def take_back(self, change: ConfigChange) -> None:
        pass

    def commit(self, before: ConfigState, after: ConfigState) -> None:
        pass

    async def spread(
        self, state: ConfigState, only: frozenset[NodeUuid] | None = None, *, anew: bool = False
    ) -> frozenset[NodeUuid]:
        nodes = frozenset(state.config.nodes) if only is None else only
        master = state.config.cluster.master_node
        if master not in nodes:
            return nodes
        async with self._gate:
            with trio.CancelScope(shield=True):
                await try_in_thread(self._write, state.config)
        return nodes - {master}

    def behind(self) -> tuple[NodeBehind, ...]:
        return ()

    async def check(self, *, asks: bool) -> tuple[ConfigVerdict, ...]:
        return ()

    def _write(self, config: Config) -> None:
        contents = {key: file_content(lines) for key, lines in ssconf_values(config, release=self._release).items()}
        changed = {key: content for key, content in contents.items() if self._differs(key, content)}
        write_files(self._writes(changed))
        self._written.update(changed)

    def _writes(self, contents: Mapping[str, bytes]) -> list[FileWrite]:
        for key, content in contents.items():
            if len(content) > MAX_BYTES:
                _log.error("ssconf.too_long", key=key, size=len(content), limit=MAX_BYTES)
        return ssconf_writes(self._paths, {key: text for key, text in contents.items() if len(text) <= MAX_BYTES})

    def _differs(self, key: str, content: bytes) -> bool:
        if key not in self._written:
            with contextlib.suppress(OSError):
                self._written[key] = self._paths.ssconf_file(key).read_bytes()
        return self._written.get(key) != content


# Whether other nodes are to have copies of configuration and queue, where no daemon makes them.
#
# Source: wconfd.md 7.5; DESIGN section 12.


_MOST_NAMES: Final = 5


def check_copies(config: Config) -> None:
    """Refuse a configuration that has master candidates beside the master.

    Raises: Conflict: it has; the message names them and says what to do.
    """
    others = sorted(
        node.name for node in config.nodes.values() if node.master_candidate and node.uuid != config.cluster.master_node
    )
    if not others:
        return
    more = ", ..." if len(others) > _MOST_NAMES else ""
    raise Conflict(
        f"the cluster has {len(others)} master candidates beside the master ({', '.join(others[:_MOST_NAMES])}{more}), "
        "and nobody copies the configuration and the queue to them: all would be lost with this machine; make "
        "candidates of none but the master (gnt-node modify --master-candidate=no NODE), let copies be made by "
        "'replication = \"nodes\"' in '[cluster]', or accept that by 'allow_uncopied = true' in '[ganeti]'",
        nodes=len(others),
    )
