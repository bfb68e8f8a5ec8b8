"""How wconfd's changes reach the other nodes, and the mode `none`.

Theory. It is `common.replica` for wconfd's writers' threads, with the same two steps: `before` a change is written
here, a majority has it, where the mode wants that; `after` it was written, it is passed to the other nodes, in the
background, as nothing here waits for them. What could not be written is taken back. The change of the configuration
is committed, not a file: of thousands of objects one may differ. `spread` sends the configuration to every node that
should have it.

Source: wconfd.md 7.5 and 7.9; DESIGN sections 12 and 14.
"""

import contextlib
from collections.abc import Callable, Mapping
from typing import Final, Generic, Self, TypeVar

import attrs
import trio

from common.clusterinit import ssconf_writes
from common.durable.atomicfile import FileWrite, write_files
from common.errors import Conflict
from common.metrics import Metrics
from common.objects.config import Config
from common.objects.kinds import NodeUuid
from common.objects.ssconf import MAX_BYTES, RELEASE_VERSION, file_content, ssconf_values
from common.paths import Paths
from common.system.inthread import try_in_thread
from common.system.log import get_log
from daemons.wconfd.core.config.configstate import ConfigState
from daemons.wconfd.core.keptrows import Rows
from daemons.wconfd.core.reservations import Reservations
from protocol.wconfd.config import NodeBehind
from protocol.wconfd.daemon import ConfigVerdict

_log: Final = get_log(__name__)


S_co = TypeVar("S_co", covariant=True)
T_co = TypeVar("T_co", covariant=True)


@attrs.frozen(kw_only=True)
class _Change(Generic[S_co]):
    """A change of a state, or several that share a write."""

    before: S_co
    after: S_co

    @property
    def reversed(self) -> Self:
        return attrs.evolve(self, before=self.after, after=self.before)


@attrs.frozen(kw_only=True)
class ConfigChange(_Change[ConfigState]):
    # kept beside the file (`configfile.ConfigFile`), before and after
    note_before: bytes
    note: bytes

    @property
    def reversed(self) -> Self:
        return attrs.evolve(super().reversed, note_before=self.note, note=self.note_before)


@attrs.frozen(kw_only=True)
class RowsChange(_Change[Rows[T_co]], Generic[T_co]):
    """A change of rows of a file of ours."""

    # name of the file
    file: str


class ReservationsChange(_Change[Reservations]):
    pass


StateChange = ConfigChange | RowsChange[object] | ReservationsChange


class ConfigDistribution:
    """What the modes have in common; those that commit nothing before a change is written leave that out."""

    def carry_out(self, change: StateChange, write: Callable[[], None]) -> None:
        """Commit a change, write it here, and pass it on; or none of it. In the writer's thread, in order.

        Args: write: after any exception of it nothing has changed here.
        Raises: as `before` and `write`: nothing has changed. As `after`.
        """
        self.before(change)
        try:
            write()
        except BaseException:
            self.take_back(change)
            raise
        self.after(change)

    def before(self, change: StateChange) -> None:
        """Commit a change in the cluster, which is then written here; in the writer's thread, in order.

        Raises:
            Unavailable, InvalidRequest: it is not committed, and nothing has changed.
            NoLongerMaster: another node is the master; nothing may be written here.
        """

    def take_back(self, change: StateChange) -> None:
        """Undo `before` for a change that could not be written here; in the writer's thread.

        It returns when that is committed, however long it takes: what this node has is what the cluster has.

        Raises: NoLongerMaster.
        """

    def after(self, change: StateChange) -> None:
        """Pass a change that is durable here to the other nodes; in the writer's thread, in order. It waits for none.

        Raises: NoLongerMaster: another node is the master; the change may be lost, nothing more may be written here.
        """

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
        raise NotImplementedError

    def behind(self) -> tuple[NodeBehind, ...]:
        """The online nodes that lack the latest state, as far as known, by name; none if nothing is copied."""
        return ()

    async def check(self, *, asks: bool) -> tuple[ConfigVerdict, ...]:
        """Compare with the other nodes that should have the state, by name; none if nothing is copied.

        Args: asks: whether the nodes are asked now; false: what the last comparison has shown.
        """
        return ()

    def work(self) -> Metrics | None:
        """The numbers of commits, for graphs and alerts; None: nothing is committed elsewhere."""
        return None


class LocalDistribution(ConfigDistribution):
    """Serves only this node, the master: its ssconf files. It reports all other nodes as not reached."""

    def __init__(self, paths: Paths, release: str = "") -> None:
        self._paths = paths
        self._release = release or RELEASE_VERSION
        self._written: dict[str, bytes] = {}
        self._gate = trio.Lock()

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
