"""Telling the nodes: what a durable change of the configuration means beyond its file.

Theory. It is the seam of `common.replication` for what wconfd writes. A change has two moments in which others get it:
`commit`, after which it counts, and `spread`, which brings it to every node that should have it, in the background.
What is committed is the change of the configuration, not a file: of thousands of objects one may differ.

Source: wconfd.md 7.5 and 7.9; DESIGN sections 12 and 14.
"""

import contextlib
from collections.abc import Mapping
from typing import Final, Protocol

import trio

from common.clusterinit import ssconf_writes
from common.durable.atomicfile import FileWrite, write_files
from common.objects.config import Config
from common.objects.kinds import NodeUuid
from common.objects.ssconf import MAX_BYTES, RELEASE_VERSION, file_content, ssconf_values
from common.paths import Paths
from common.system.inthread import try_in_thread
from common.system.log import get_log
from daemons.wconfd.core.config.configstate import ConfigState

_log: Final = get_log(__name__)


class Distribution(Protocol):
    """Brings configuration and ssconf values to the nodes that should have them."""

    def commit(self, before: ConfigState, after: ConfigState) -> None:
        """Let the others have a change that is durable here, before it is visible; in the writer's thread, in order.

        Changes that are made meanwhile wait, and share the next call. It returns within a bound of its own.

        Raises:
            NotCopied: the others lack it for now. It counts all the same.
            NoLongerMaster: another node is the master; the change may be lost, and nothing more may be written here.
        """
        ...

    async def spread(self, state: ConfigState, only: frozenset[NodeUuid] | None = None) -> frozenset[NodeUuid]:
        """Bring the state to the nodes; what they have already is not sent again.

        Args:
            only: nodes to tell; None: all.
        Returns:
            Those of the nodes that were not told.
        Raises:
            OSError: the files of this node could not be written.
            NoLongerMaster: another node is the master.
        """
        ...


class LocalDistribution:
    """Serves this node, the master, alone: its ssconf files. All others are not told, and it says so."""

    def __init__(self, paths: Paths, release: str = "") -> None:
        self._paths = paths
        self._release = release or RELEASE_VERSION
        self._written: dict[str, bytes] = {}
        self._gate = trio.Lock()

    def commit(self, before: ConfigState, after: ConfigState) -> None:
        pass

    async def spread(self, state: ConfigState, only: frozenset[NodeUuid] | None = None) -> frozenset[NodeUuid]:
        nodes = frozenset(state.config.nodes) if only is None else only
        master = state.config.cluster.master_node
        if master not in nodes:
            return nodes
        async with self._gate:
            with trio.CancelScope(shield=True):
                await try_in_thread(self._write, state.config)
        return nodes - {master}

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
