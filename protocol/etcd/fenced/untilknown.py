"""Send a transaction to etcd until it is known what has become of it, or this node's own deadline has passed.

Source: DESIGN section 14; lease.md 7.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import trio

from common.errors import Unavailable
from common.lease.deadline import Deadline, boottime
from common.replication import NoLongerMaster
from common.system.log import get_log
from protocol.etcd.errors import Compacted, EtcdError, EtcdFull, TooLarge
from protocol.etcd.kv import Found, Get, Outcome, Transaction

# seconds; pauses after tries that told nothing
_PAUSES_S: Final[Sequence[float]] = (0.02, 0.1, 0.3, 1.0)
# seconds; a try takes a round of all members, then users are told that etcd is silent
_TRY_S: Final = 3.0
_log: Final = get_log(__name__)


class Etcd(Protocol):
    """What is asked of `protocol.etcd.client.EtcdClient`."""

    async def get(self, asked: Get, limit_s: float | None = None) -> Found: ...

    async def transact(self, transaction: Transaction, limit_s: float | None = None) -> Outcome: ...


class UntilKnown:
    """Asks etcd for a daemon of the master.

    Raises, all methods:
        NoLongerMaster: the deadline has passed. What was sent may have had its effect.
    """

    def __init__(self, client: Etcd, deadline: Deadline) -> None:
        self._client = client
        self._deadline = deadline
        # by `boottime`; since when no reply has decided anything; None: the last one has
        self.silent_since_s: float | None = None
        # tries after the first one of a request
        self.retries = 0

    async def transact(self, transaction: Transaction) -> Outcome:
        """Raises:
        EtcdFull: etcd refuses what needs space; an earlier try may have had its effect.
        TooLarge: nothing was carried out.
        """
        tries = 0
        while True:
            try:
                outcome = await self._client.transact(transaction, min(self._left_s(), _TRY_S))
            except (EtcdFull, TooLarge):
                self._heard()
                raise
            except (EtcdError, Unavailable) as error:
                await self._pause(tries, error)
                tries += 1
                continue
            self._heard()
            # a reply that came too late is none: from then on nothing is written here either
            self._left_s()
            return outcome

    async def get(self, asked: Get, since: int = 0) -> Found:
        """Read.

        Args: since: a reply of a member that does not know this revision yet is none.
        Raises: Compacted.
        """
        tries = 0
        while True:
            try:
                found = await self._client.get(asked, min(self._left_s(), _TRY_S))
                if found.header.revision >= since:
                    self._heard()
                    return found
                error: Exception = Unavailable(f"a member of etcd is at revision {found.header.revision} of {since}")
            except Compacted:
                raise
            except (EtcdError, Unavailable) as failure:
                error = failure
            await self._pause(tries, error)
            tries += 1

    def _left_s(self) -> float:
        left_s = self._deadline.until_s - boottime()
        if left_s <= 0:
            raise NoLongerMaster(
                "this node's own deadline has passed: its lease could not be renewed in time, so another node may have "
                "become the master"
            )
        return left_s

    async def _pause(self, tries: int, error: Exception) -> None:
        self.retries += 1
        if self.silent_since_s is None:
            self.silent_since_s = boottime()
            _log.warning("etcd.unknown", error=error, effect="the same request is sent until its outcome is known")
        await trio.sleep(min(_PAUSES_S[min(tries, len(_PAUSES_S) - 1)], max(0.0, self._left_s())))

    def _heard(self) -> None:
        if self.silent_since_s is not None:
            _log.info("etcd.known", waited_s=round(boottime() - self.silent_since_s, 1))
        self.silent_since_s = None
