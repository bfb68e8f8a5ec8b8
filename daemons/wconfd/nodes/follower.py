"""One node that follows: it gets the latest contents, until it has them.

Source: noded.md 8; wconfd.md 7.5.
"""

import os
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs
import trio

from common.objects.config import Config
from common.objects.ssconf import MAX_BYTES, file_content, ssconf_values
from common.replica.replica import NoLongerMaster
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.shortages import retry_pauses
from daemons.wconfd.core.config.configstate import ConfigState
from daemons.wconfd.core.config.replicas import CallFailure, NodeHolding, Part
from protocol.noded.call import Failed, FailureKind, NodeAddress, NodeCall
from protocol.noded.clients.client import NodeClient
from protocol.noded.clients.line import NodeLine, NotSent, digest
from protocol.noded.files import SsconfValue, UploadFileSingle, WriteSsconfFiles, upload_of
from protocol.noded.membership import NodeVersion, ReadNodeProgress
from protocol.noded.statefiles import RemoveStateFiles
from protocol.wconfd.config import NodeBehind
from protocol.wconfd.daemon import ConfigVerdict

# The contents of the configuration that the other nodes get, as calls of node daemons.
#
# Source: noded.md 6 and 8; wconfd.md 7.5 and 7.9.


@attrs.frozen
class Numbered:
    """The call that brings a content to a node; of two contents of a part, the newer one has the higher number."""

    number: int
    call: NodeCall[None] = attrs.field(repr=False, eq=False)
    # contents of the files that the call makes, by their names on the wire
    files: Mapping[str, bytes] = attrs.field(factory=dict, repr=False, eq=False)


# beginning of the names of ssconf's files
SSCONF_PREFIX: Final = "ssconf_"
# parts that are files of their own, which wconfd replaces as a whole
BESIDE: Final = (Part.SCHEDULES, Part.RESOURCES, Part.SESSIONS)
# those of them that a candidate sets aside when the master has lost them; a lost session is one more login
LOSSES: Final = (Part.SCHEDULES, Part.RESOURCES)
# parts that only candidates get
FOR_CANDIDATES: Final = frozenset((Part.CONFIG, *BESIDE))
Contents = Mapping[Part, Numbered]
NOTHING: Final[Contents] = {}


class ContentMaker:
    """Makes the contents, and numbers those that differ from the ones before; for one thread at a time.

    Args:
        name: of `path`, the file of the configuration, on the wire.
        release: value of ssconf for the programs' release.
    """

    def __init__(self, path: Path, name: str, release: str) -> None:
        self._path = path
        self._name = name
        self._release = release
        # what makes a content differ
        self._keys: dict[Part, Hashable] = {}
        self._made: dict[Part, Numbered] = {}

    def make(self, state: ConfigState) -> Contents:
        """The contents of this state, with mode, owner and times of the file that is on this node.

        Raises: OSError: the file cannot be looked at.
        """
        status = os.stat(self._path)
        content = state.content
        # reading the file changes the other time
        self._note(
            Part.CONFIG,
            (content, status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns),
            UploadFileSingle.of(upload_of(self._name, content, status)),
            lambda: {self._name: content},
        )
        values = self._ssconf(state.config)
        for part in BESIDE:
            self._note_beside(part)
        self._note(Part.SSCONF, tuple(values.items()), WriteSsconfFiles(values), lambda: self._ssconf_files(values))
        return dict(self._made)

    def _note_beside(self, part: Part) -> None:
        """Note a file that lies beside that of the configuration, once it is there.

        Raises: OSError: it cannot be read.
        """
        try:
            with self._path.with_name(part.value).open("rb") as file:
                status, content = os.fstat(file.fileno()), file.read()
        except FileNotFoundError:
            return
        name = f"{self._name.removesuffix(self._path.name)}{part.value}"
        self._note(
            part,
            (content, status.st_mode, status.st_uid, status.st_gid),
            UploadFileSingle.of(upload_of(name, content, status)),
            lambda: {name: content},
        )

    def _ssconf_files(self, values: Mapping[str, SsconfValue]) -> Mapping[str, bytes]:
        # beside the file of the configuration
        folder = self._name.removesuffix(self._path.name)
        return {f"{folder}{SSCONF_PREFIX}{key}": value.content for key, value in values.items()}

    def _note(self, part: Part, key: Hashable, call: NodeCall[None], files: Callable[[], Mapping[str, bytes]]) -> None:
        before = self._made.get(part)
        if before is None or self._keys[part] != key:
            self._keys[part] = key
            self._made[part] = Numbered(before.number + 1 if before else 1, call, files())

    def _ssconf(self, config: Config) -> Mapping[str, SsconfValue]:
        """The values; those that are too long, which this node's distribution logs, are left out: nodes refuse them."""
        lines = ssconf_values(config, release=self._release)
        return {key: SsconfValue(tuple(each)) for key, each in lines.items() if len(file_content(each)) <= MAX_BYTES}


# Whether a node has the contents that it should have, by the digests that its daemon tells.
#
# Source: noded.md 6; DESIGN section 12.


# seconds that a node has for its reply
LIMIT_S: Final = 15.0
# names of files that are told
_MOST_NAMES: Final = 5


async def compare(line: NodeLine, contents: Contents, now: float, limit_s: float = LIMIT_S) -> ConfigVerdict:
    """Ask a node for its files. Args: now: seconds since 1970."""
    wanted = await in_thread(_digests, contents)
    try:
        found = await line.digests(list(wanted), limit_s, even_paused=True)
    except NotSent as error:
        return ConfigVerdict(line.node.name, failure=error.failed.text)
    names = sorted(name.rpartition("/")[2] for name, content in wanted.items() if found.get(name) != content)
    return ConfigVerdict(line.node.name, now, len(names), tuple(names[:_MOST_NAMES]))


def _digests(contents: Contents) -> Mapping[str, str]:
    """By names on the wire."""
    return {name: digest(content) for part in contents.values() for name, content in part.files.items()}


# limits of one call: the node daemon's own work is a few writes
_LIMITS_S: Final[Mapping[Part, float]] = {
    Part.SSCONF: 15.0,
    Part.CONFIG: 60.0,
    Part.SCHEDULES: 60.0,
    Part.RESOURCES: 60.0,
    Part.SESSIONS: 60.0,
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


@attrs.define
class Beginning:
    """What this node had when this wconfd began.

    Theory. A file that was lost here, or is an old one of a backup, must not replace the last good copy. So a node sets
    its copy aside before it gets the first content, if the file was missing here, or if the node's configuration has a
    higher serial number. `gantry repair` fetches schedules and resources; the log tells of a configuration.
    """

    # parts whose files were missing
    missing: frozenset[Part] = frozenset()
    # serial number of the configuration; None: not known yet
    serial: int | None = None
    # names of the nodes that have set aside what they had to, or had nothing
    settled: set[str] = attrs.field(factory=set)

    def kept_by(self, config_serial: int) -> tuple[str, ...]:
        """The files that a node sets aside. Args: config_serial: of its configuration."""
        is_older = self.serial is not None and config_serial > self.serial
        return tuple(part.value for part in Part if part in self.missing or (part is Part.CONFIG and is_older))


class NodeFollower:
    """A node that gets contents; `run` sends them, one call at a time.

    A silent node is left alone at least for the pauses of its client; after other failures the pauses are shorter.

    Args: progressed: called when the node has got something, a call has failed, or a doubt is settled.
    """

    def __init__(
        self,
        node: NodeAddress,
        clients: NodeClients,
        progressed: Callable[[], None] = lambda: None,
        beginning: Beginning | None = None,
    ) -> None:
        self.node = node
        self._line = NodeLine(node, clients.usual)
        self._first = NodeLine(node, clients.first)
        self._beginning = beginning or Beginning()
        self._progressed = progressed
        self._contents = NOTHING
        # a wconfd before this one, or a follower of the same node, may have left requests without a reply
        self._holding = NodeHolding(in_doubt=True)
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
            self.verdict = await compare(self._line, contents, time.time())
            if self.verdict.failure is not None or (contents is self._contents and not self.is_behind):
                break
        else:
            self.verdict = ConfigVerdict(self.node.name, failure=f"{self.node} is being sent changes all the time")
        if self.verdict.differ:
            self.hurry()

    async def _compare_at_start(self) -> None:
        """Find out what the node has before it gets everything anew."""
        self.verdict = await compare(self._line, self._contents, time.time(), _AT_START_S)
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
            try:
                await self._line.call(NodeVersion(), _IDLE_LIMIT_S)
            except NotSent as error:
                if error.failed.kind is FailureKind.OUTDATED:
                    raise self._loss(error.failed.text) from error

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
        try:
            if part is not Part.SSCONF and self.node.name not in self._beginning.settled:
                await self._keep_theirs()
            await self._send(part, content)
        except NotSent as error:
            if error.failed.kind is FailureKind.OUTDATED:
                raise self._loss(error.failed.text) from error
            await self._recover(part, error.failed)
        else:
            self._note_success(part, content)

    async def _keep_theirs(self) -> None:
        """Let the node set aside what this one may have lost, if it has anything. Raises: NotSent."""
        try:
            await self._try_to_keep_theirs()
        except NotSent as error:
            if not error.failed.kind.is_sign_of_life or error.failed.kind is FailureKind.OUTDATED:
                raise
            # an earlier release has no such calls, and its standing may be damaged
        self._beginning.settled.add(self.node.name)

    async def _try_to_keep_theirs(self) -> None:
        await self._line.call(NodeVersion(), _IDLE_LIMIT_S)
        if not self._line.tells_epoch:
            # Ganeti's node daemon hangs up on a caller of a call of ours
            return
        standing = await self._line.call(ReadNodeProgress(), _IDLE_LIMIT_S)
        names = self._beginning.kept_by(standing.config_serial)
        if not names:
            return
        await self._line.call(RemoveStateFiles(names, keeps=True), _IDLE_LIMIT_S)
        if Part.CONFIG.value in names:
            effect = "it has set its copy aside, and gets this one; compare them"
            serials = {"serial": self._beginning.serial, "on_node": standing.config_serial}
            _log.error("config.older_here", node=self.node.name, **serials, effect=effect)

    def _loss(self, text: str) -> NoLongerMaster:
        effect = "wconfd ends and writes nothing more here"
        _log.error("master.lost", reason=text, effect=effect)
        return NoLongerMaster(f"this node is no longer the master: {text}; {effect}, ask the new master")

    async def _send(self, part: Part, content: Numbered) -> None:
        """Raises: NotSent."""
        self._hurry, is_hurried, self._is_hurried = trio.Event(), self._is_hurried, False
        try:
            await self._line.call(content.call, _LIMITS_S[part], even_paused=is_hurried)
        except NotSent as error:
            if part is not Part.SSCONF or error.failed.kind is not FailureKind.REFUSED:
                raise
            try:
                await self._first.call(content.call, _LIMITS_S[part], even_paused=True)
            except NotSent:
                raise error from None

    def _note_success(self, part: Part, content: Numbered) -> None:
        self._holding = self._holding.received(part, content.number)
        self._pauses = retry_pauses()
        if self._told and not self.is_behind:
            self._told = ""
            _log.info("config.copied_again", node=self.node.name)
        self._tell_progress()

    async def _recover(self, part: Part, failed: Failed) -> None:
        self._holding = self._holding.failed(part, _failure(failed.kind))
        if _failure(failed.kind) is CallFailure.UNKNOWN:
            self._doubted_at = trio.current_time()
        self._failures += 1
        pause_s = self._line.pause_s(next(self._pauses))
        if failed.kind is not FailureKind.PAUSED and failed.text != self._told:
            self._told = failed.text
            _log.warning("config.not_copied", part=part.value, reason=failed.text, going_on="again until it succeeds")
        self._is_pausing = not self._is_hurried
        self._tell_progress()
        with trio.move_on_after(pause_s):
            await self._hurry.wait()
        self._is_pausing = False

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


def _failure(kind: FailureKind) -> CallFailure:
    if kind.is_sign_of_life or kind is FailureKind.UNSENT:
        return CallFailure.REFUSED
    return CallFailure.UNKNOWN if kind.may_have_acted else CallFailure.SILENT
