"""The highest id of a job that other nodes know, for a master that has lost its own, or has just become the master.

At each start nodes are asked for their serials alone: a folder that was restored from a backup is whole, and old.

Asked are all nodes of ssconf that are not offline, each for at most `LIMIT_S`: its serial, the jobs that it has, and
the commands that it knows, whose keys are made of ids. A node that does not reply is named in the log, and not waited
for: the gap behind the highest id stands for what it may know.

Source: DESIGN section 11, "ids after a loss of `serial`", "ids after a failover".
"""

import contextlib
import re
from collections.abc import AsyncIterator
from typing import Final

import trio

from common.ids import JobId
from common.nodes.nodeplace import node_ips, offline_nodes
from common.paths import Paths
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.log import get_log
from protocol.noded.call import NodeAddress
from protocol.noded.clients.certificates import CertificateFiles
from protocol.noded.clients.client import NodeClient
from protocol.noded.clients.line import NodeLine, NotSent
from protocol.noded.commands import MOST_COMMANDS, ListCommands
from protocol.noded.membership import ReadNodeProgress
from protocol.noded.statefiles import ARCHIVE, MOST_FILES, QUEUE, ListStateFiles, is_archive_folder, job_of_key

# seconds for the serial of all nodes, at each start
AT_START_S: Final = 2.0
# seconds for all questions to one node
LIMIT_S: Final = 20.0
_CALL_S: Final = 10.0
_JOB: Final = re.compile(r".*/job-(\d+)", re.ASCII)
_log: Final = get_log(__name__)


async def serial_on_nodes(settings: Settings) -> JobId:
    """The highest serial of a node that tells it within `AT_START_S`; 0: none does. Raises: OSError: as below."""
    nodes = await in_thread(_others, settings.paths, settings.cluster.own_name, settings.noded.port)
    serials = [0]
    async with NodeClient(CertificateFiles.of(settings.paths)) as client, trio.open_nursery() as nursery:

        async def ask(node: NodeAddress) -> None:
            with contextlib.suppress(NotSent):
                serials.append((await NodeLine(node, client).call(ReadNodeProgress(), AT_START_S)).queue_serial)

        nursery.cancel_scope.deadline = trio.current_time() + AT_START_S
        for node in nodes:
            nursery.start_soon(ask, node)
    return JobId(max(serials))


async def highest_on_nodes(settings: Settings) -> JobId:
    """The highest id that a node which can be reached knows; 0: none. Raises: OSError: ssconf cannot be read."""
    nodes = await in_thread(_others, settings.paths, settings.cluster.own_name, settings.noded.port)
    highest = dict.fromkeys((node.name for node in nodes), 0)
    silent: list[str] = []
    async with NodeClient(CertificateFiles.of(settings.paths)) as client, trio.open_nursery() as nursery:

        async def ask(node: NodeAddress) -> None:
            with trio.move_on_after(LIMIT_S) as scope:
                try:
                    async for found in _ids_of(NodeLine(node, client)):
                        highest[node.name] = max(highest[node.name], found)
                except NotSent as error:
                    silent.append(error.failed.text)
            if scope.cancelled_caught:
                silent.append(f"{node} has not told all its jobs within {LIMIT_S:g} s")

        for node in nodes:
            nursery.start_soon(ask, node)
    for text in silent:
        _log.warning("ids.not_told", reason=text, effect="ids that only this node knows are behind the gap, perhaps")
    return JobId(max(highest.values(), default=0))


def _others(paths: Paths, own_name: str, port: int) -> list[NodeAddress]:
    left_out = {own_name, *offline_nodes(paths)}
    return [NodeAddress(name, ip, port) for name, ip in node_ips(paths).items() if name not in left_out]


async def _ids_of(line: NodeLine) -> AsyncIterator[int]:
    """Raises: NotSent."""
    yield (await line.call(ReadNodeProgress(), _CALL_S)).queue_serial
    after = ""
    while True:
        page = await line.call(ListCommands(after), _CALL_S)
        for state in page:
            yield job_of_key(state.key)
        if len(page) < MOST_COMMANDS:
            break
        after = max(state.key for state in page)
    folders = [name for name in await _names_in(line, ARCHIVE) if is_archive_folder(name)]
    # an archived job of a lower folder has a lower id
    last = max(folders, key=lambda name: int(name.rpartition("/")[2]), default=None)
    for folder in (QUEUE, last) if last is not None else (QUEUE,):
        for name in await _names_in(line, folder):
            if match := _JOB.fullmatch(name):
                yield int(match[1])


async def _names_in(line: NodeLine, folder: str) -> list[str]:
    names: list[str] = []
    while True:
        page = await line.call(ListStateFiles(folder, names[-1] if names else ""), _CALL_S)
        names.extend(page)
        if len(page) < MOST_FILES:
            return names
