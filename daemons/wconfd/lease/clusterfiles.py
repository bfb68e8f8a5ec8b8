"""What wconfd commits in etcd: changes of its files, and which of them some candidate may lack.

Source: DESIGN section 14.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

import trio

from common.errors import Unavailable
from common.lease.dirty import Change
from common.lease.packing import divided
from common.paths import Paths
from common.replication import NoLongerMaster
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.mastership import Mastership
from common.system.retrypauses import retry_pauses
from daemons.wconfd.core.config.replicas.uncopied import Uncopied
from daemons.wconfd.lease.configkeys import ConfigKeys
from daemons.wconfd.lease.keptreplaying import lay_rows
from daemons.wconfd.lease.replaying import lay_over
from protocol.etcd.fenced.commits import Commits

_log: Final = get_log(__name__)


class ClusterFiles:
    """wconfd's files in the cluster: commits of their changes, and what some candidate may lack."""

    def __init__(self, commits: Commits, keys: ConfigKeys, mastership: Mastership) -> None:
        self.commits = commits
        self.keys = keys
        self.uncopied = Uncopied()
        self._mastership = mastership
        # the last serial number that was noted in etcd before changes were forgotten
        self.base = 0

    async def replay(self, paths: Paths, *, takes_loss: bool) -> None:
        """Bring this node's files up to what is in etcd.

        Raises: NoLongerMaster. As `replaying.lay_over`. Args: takes_loss: as there.
        """
        try:
            found = await self.commits.read(self.keys.prefixes)
        except NoLongerMaster as error:
            self._mastership.lose(error)
            raise
        values = {key: entry.value for key, entry in found.entries.items()}
        laid = await in_thread(partial(lay_over, paths, self.keys, values, takes_loss=takes_loss))
        self.base = self.keys.base_in(values)
        for key, entry in found.entries.items():
            if key.startswith(self.keys.prefix):
                self.uncopied.add([key], entry.revision, laid.serial_no)
        # serial number and times are the last: until then the file is newer, and counts again
        for changes in divided(laid.older):
            await self.insist(changes, laid.serial_no)
        for changes in await in_thread(lay_rows, paths, self.keys, values):
            await self.insist(changes)

    async def commit(self, changes: Sequence[Change], serial_no: int | None = None) -> None:
        """Commit changes. Args: serial_no: of the configuration with them; None: they are none of it.

        Raises: NoLongerMaster. Unavailable, InvalidRequest: nothing was committed.
        """
        try:
            revision = await self.commits.commit(changes)
        except NoLongerMaster as error:
            self._mastership.lose(error)
            raise
        if serial_no is not None:
            self.uncopied.add([change.key for change in changes], revision, serial_no)

    async def insist(self, changes: Sequence[Change], serial_no: int | None = None) -> None:
        """Commit changes, however long it takes. Raises: NoLongerMaster."""
        retries, told = retry_pauses(), ""
        while True:
            try:
                await self.commit(changes, serial_no)
                return
            except NoLongerMaster:
                raise
            except Unavailable as error:
                if error.message != told:
                    told = error.message
                    _log.error("commit.delayed", reason=error, going_on="again until it succeeds")
            await trio.sleep(next(retries))

    async def forget(self, serial_no: int) -> None:
        """Forget what led up to this serial number, which all candidates have. Raises: NoLongerMaster. Unavailable."""
        due = self.uncopied.up_to(serial_no)
        if not due:
            return
        if serial_no > self.base:
            await self.commit([self.keys.of_base(serial_no)])
            self.base = serial_no
        try:
            await self.commits.forget(due)
        except NoLongerMaster as error:
            self._mastership.lose(error)
            raise
        self.uncopied.forget(due)
