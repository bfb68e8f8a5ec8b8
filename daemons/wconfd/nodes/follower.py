"""One node that follows: it gets the latest contents, until it has them.

Source: noded.md 8; wconfd.md 7.5.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final, assert_never

import attrs
import trio

from common.replication import NoLongerMaster
from common.system.log import get_log
from common.system.retrypauses import retry_pauses
from daemons.wconfd.core.config.replicas.nodecopies import Failure, Holding, Part
from daemons.wconfd.nodes.checking import compare
from daemons.wconfd.nodes.contents import NOTHING, Contents, Numbered
from protocol.noded.clients.client import NodeClient
from protocol.noded.clients.nodes import NodeAddress
from protocol.noded.clients.outcomes import Failed, FailureKind, Outcome, Replied, Skipped
from protocol.noded.membership import Version
from protocol.wconfd.config import NodeBehind
from protocol.wconfd.copies import ConfigVerdict

# limits of one call: the node daemon's own work is a few writes
_LIMITS_S: Final[Mapping[Part, float]] = {
    Part.SSCONF: 15.0,
    Part.CONFIG: 60.0,
    Part.SCHEDULES: 60.0,
    Part.RESOURCES: 60.0,
}
# time after which a node daemon has ended all requests that were left without a reply
_SETTLING_S: Final = 10.0
# seconds for the first comparison, after which the node gets everything
_AT_START_S: Final = 5.0
# seconds without a change after which a candidate is asked, and for its reply
_IDLE_S: Final = 30.0
_IDLE_LIMIT_S: Final = 15.0
# times that a node is compared while its contents change, and seconds that each waits for them
_CHECK_ROUNDS: Final = 5
_CHECK_PATIENCE_S: Final = 5.0
_log: Final = get_log(__name__)


@attrs.frozen
class NodeClients:
    # shows the certificate of this node
    usual: NodeClient
    # shows the cluster's own, which nodes obey as long as they know no candidates
    first: NodeClient


class Follower:
    """A node that gets contents; `run` sends them, one call at a time.

    A silent node is left alone for the pauses of its client; after other failures the pauses are shorter.

    Args: progressed: called when the node has got something, a call has failed, or a doubt is settled.
    """

    def __init__(self, node: NodeAddress, clients: NodeClients, progressed: Callable[[], None] = lambda: None) -> None:
        self.node = node
        self._clients = clients
        self._progressed = progressed
        self._contents = NOTHING
        # a wconfd before this one, or a follower of the same node, may have left requests without a reply
        self._holding = Holding(in_doubt=True)
        # when the last request without a reply was given up
        self._doubted_at = trio.current_time()
        # when it had everything last, as far as known; the beginning, if never
        self._complete_at = trio.current_time()
        self._failures = 0
        # pauses after the failures in a row
        self._pauses: Iterator[float] = retry_pauses()
        self._is_pausing = False
        # text of the last failure that was logged
        self._told = ""
        # whether the next call is sent even if the node is left alone
        self._is_hurried = False
        # there is more to send, or it is wanted at once
        self._news = trio.Event()
        self._hurry = trio.Event()
        # a call has ended
        self._progress = trio.Event()
        self._scope = trio.CancelScope()
        # what the last comparison has shown
        self.verdict = ConfigVerdict(node.name)

    def aim(self, contents: Contents) -> None:
        """Send these contents from now on, instead of those before."""
        self._note_completeness()
        self._contents = contents
        self._news.set()

    def hurry(self) -> None:
        """Send everything again, and at once, even if the node is left alone after failures."""
        self._note_completeness()
        self._holding = self._holding.anew()
        self._is_pausing, self._is_hurried = False, True
        self._news.set()
        self._hurry.set()

    @property
    def is_behind(self) -> bool:
        """Whether the node lacks anything, as far as known."""
        return self._lacking() is not None

    @property
    def copied(self) -> int | None:
        """The number of the configuration's content that it has for sure; None: it may have any, or lose what it has.

        A request without a reply may still bring it an older one.
        """
        return None if self._holding.in_doubt else self._holding.numbers.get(Part.CONFIG)

    def behind(self) -> NodeBehind | None:
        """What the node lacks; None: nothing, as far as known."""
        lacks = tuple(part.value for part in self._holding.lacking(self._numbers()))
        if not lacks:
            return None
        behind_s = trio.current_time() - self._complete_at
        return NodeBehind(name=self.node.name, lacks=lacks, behind_s=behind_s, reason=self._told)

    async def attempted(self) -> None:
        """Wait until the node has everything or a call has failed; not for a node that is left alone now."""
        failures = self._failures
        while self.is_behind and self._failures == failures and not self._is_pausing:
            await self._progress.wait()

    async def run(self) -> None:
        """Send, until `end`.

        Raises: NoLongerMaster: the node has another master.
        """
        with self._scope:
            await self._compare_at_start()
            while True:
                self._news = trio.Event()
                part = self._lacking()
                if part is not None:
                    await self._bring(part)
                elif self._holding.in_doubt:
                    await self._settle()
                else:
                    await self._wait_for_news()

    async def check(self) -> None:
        """Compare the node with what it should have; a node that is being sent something is waited for.

        A node that has something else gets everything again.
        """
        for _ in range(_CHECK_ROUNDS):
            with trio.move_on_after(_CHECK_PATIENCE_S):
                await self.attempted()
            contents = self._contents
            self.verdict = await compare(self._clients.usual, self.node, contents, time.time())
            if self.verdict.failure is not None or (contents is self._contents and not self.is_behind):
                break
        else:
            self.verdict = ConfigVerdict(self.node.name, failure=f"{self.node} is being sent changes all the time")
        if self.verdict.differ:
            self.hurry()

    async def _compare_at_start(self) -> None:
        """Find out what the node has before it gets everything anew."""
        self.verdict = await compare(self._clients.usual, self.node, self._contents, time.time(), _AT_START_S)
        if self.verdict.failure is None:
            files = ",".join(self.verdict.files)
            _log.info("config.compared", node=self.node.name, differ=self.verdict.differ, files=files)

    async def _wait_for_news(self) -> None:
        """Wait; a candidate is asked now and then, so that an idle wconfd learns of another master.

        Raises: NoLongerMaster.
        """
        with trio.move_on_after(_IDLE_S):
            await self._news.wait()
            return
        if Part.CONFIG in self._contents:
            outcome = (await self._clients.usual.call_nodes([self.node], Version(), _IDLE_LIMIT_S))[self.node.name]
            if isinstance(outcome, Failed) and outcome.kind is FailureKind.OUTDATED:
                raise self._loss(outcome.text)

    def end(self) -> None:
        """Send nothing more: the node is offline, has left, or has another address."""
        self._scope.cancel()

    def _note_completeness(self) -> None:
        """Before it gets something to send."""
        if not self.is_behind:
            self._complete_at = trio.current_time()

    def _lacking(self) -> Part | None:
        return self._holding.lacks(self._numbers())

    def _numbers(self) -> Mapping[Part, int]:
        return {part: content.number for part, content in self._contents.items()}

    async def _bring(self, part: Part) -> None:
        content = self._contents[part]
        outcome = await self._send(part, content)
        match outcome:
            case Replied():
                self._note_success(part, content)
            case Skipped():
                # nothing was sent: the node is offline, and its follower is about to end
                await self._news.wait()
            case Failed(FailureKind.OUTDATED, text):
                raise self._loss(text)
            case Failed():
                await self._recover(part, outcome)
            case _:
                assert_never(outcome)

    def _loss(self, text: str) -> NoLongerMaster:
        effect = "wconfd ends and writes nothing more here"
        _log.error("master.lost", reason=text, effect=effect)
        return NoLongerMaster(f"this node is no longer the master: {text}; {effect}, ask the new master")

    async def _send(self, part: Part, content: Numbered) -> Outcome[None]:
        self._hurry, is_hurried, self._is_hurried = trio.Event(), self._is_hurried, False
        outcome = await self._call(self._clients.usual, part, content, even_paused=is_hurried)
        if part is Part.SSCONF and isinstance(outcome, Failed) and outcome.kind is FailureKind.REFUSED:
            other = await self._call(self._clients.first, part, content, even_paused=True)
            return other if isinstance(other, Replied) else outcome
        return outcome

    async def _call(self, client: NodeClient, part: Part, content: Numbered, *, even_paused: bool) -> Outcome[None]:
        outcomes = await client.call_nodes([self.node], content.call, _LIMITS_S[part], even_paused=even_paused)
        return outcomes[self.node.name]

    def _note_success(self, part: Part, content: Numbered) -> None:
        self._holding = self._holding.received(part, content.number)
        self._pauses = retry_pauses()
        if self._told and not self.is_behind:
            self._told = ""
            _log.info("config.copied_again", node=self.node.name)
        self._tell_progress()

    async def _recover(self, part: Part, failed: Failed) -> None:
        self._holding = self._holding.failed(part, _failure(failed.kind))
        if _failure(failed.kind) is Failure.UNKNOWN:
            self._doubted_at = trio.current_time()
        self._failures += 1
        silence = self._clients.usual.silence(self.node.name)
        pause_s = next(self._pauses) if silence is None else max(silence.until - trio.current_time(), 0)
        if failed.kind is not FailureKind.PAUSED and failed.text != self._told:
            self._told = failed.text
            _log.warning("config.not_copied", part=part.value, reason=failed.text, going_on="again until it succeeds")
        self._is_pausing = not self._is_hurried
        self._tell_progress()
        await self._pause(pause_s)
        self._is_pausing = False

    async def _pause(self, pause_s: float) -> None:
        with trio.move_on_after(pause_s):
            await self._hurry.wait()

    async def _settle(self) -> None:
        with trio.move_on_at(self._doubted_at + _SETTLING_S):
            await self._news.wait()
            return
        self._note_completeness()
        self._holding = self._holding.settled()

    def _tell_progress(self) -> None:
        self._progress.set()
        self._progress = trio.Event()
        self._progressed()


def _failure(kind: FailureKind) -> Failure:
    if kind.is_sign_of_life or kind is FailureKind.UNSENT:
        return Failure.REFUSED
    return Failure.UNKNOWN if kind.may_have_acted else Failure.SILENT
