"""noded: takes files from the master, and tells facts of its node. The only module that knows all parts.

Source: DESIGN sections 12 and 13; noded.md 1.
"""

import os
import signal
from collections.abc import Callable
from typing import Final

import trio

from common.durable.atomicfile import remove_leftovers
from common.errors import GantryError, explain
from common.paths import Paths
from common.settings import Settings
from common.system.daemon import run_daemon
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.program import release
from common.system.running import find_supervisor
from daemons.noded.callers import Callers
from daemons.noded.commands.nodecommands import NodeCommands
from daemons.noded.epochs import Epochs
from daemons.noded.files.places import NodePaths
from daemons.noded.files.queuefiles import QueueFileCopies
from daemons.noded.handlers.facts import FactsHandlers
from daemons.noded.handlers.files import QueueHandlers, UploadHandlers
from daemons.noded.handlers.mastership import FailoverHandlers
from daemons.noded.handlers.membership import MembershipHandlers
from daemons.noded.handlers.verifying import VerifyHandlers
from daemons.noded.handlers.work import WorkHandlers
from daemons.noded.joining import JoinGate
from daemons.noded.rpc import NodedApplication, NodedHandlers, rows
from daemons.noded.transport import TlsIdentity
from protocol.http.body import Bodies
from protocol.http.connections import Connections, open_listener
from protocol.noded.files import WireNames

NAME: Final = "noded"
# time in which the reply of a node that has left is on its way
_FAREWELL_S: Final = 1.0
# age of a temporary file that nobody goes on writing
_LEFT_AFTER_S: Final = 3600.0
_log: Final = get_log(__name__)


def main() -> None:
    """The program gantry-noded."""
    run_daemon(NAME, "The node daemon.", serve)


async def serve(settings: Settings, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Run noded; started when it listens.

    Raises: NotFound: the node has no certificate of a cluster. DamagedFile: the epoch. Unavailable: the port is taken.
    Cancellation: calls under way are finished, within a bounded time.
    """
    paths, rules = settings.paths, settings.noded
    queue = QueueFileCopies(paths)
    callers = Callers(paths.ssconf_file("master_candidates_certs"), paths.server_pem)
    epochs = Epochs(paths.epoch_file)
    is_leaving = trio.Event()
    commands = NodeCommands(settings)
    handlers = make_handlers(settings, queue, epochs, is_leaving, commands)
    bodies = Bodies(rules.max_body_bytes, rules.body_timeout_s)
    app = NodedApplication(rows(handlers), callers, epochs, bodies)
    connections = Connections(app, TlsIdentity(paths), rules)
    gate = JoinGate(settings)
    await in_thread(_begin, queue)
    await in_thread(_remove_leftovers, paths)
    with open_listener(rules.address, rules.port, where="'address' and 'port' in [noded]") as listener:
        async with trio.open_nursery() as writers:
            await writers.start(queue.run)
            await writers.start(commands.run)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_at_the_end, commands.tell_last_news)
                nursery.start_soon(connections.serve, listener)
                nursery.start_soon(gate.run)
                nursery.start_soon(_end_after, is_leaving, paths)
                nursery.start_soon(handlers.mastership.follow_epochs)
                _log.info("state.read", epoch=epochs.highest, port=rules.port, is_new=callers.is_new)
                task_status.started()
            writers.cancel_scope.cancel()


def make_handlers(
    settings: Settings, queue: QueueFileCopies, epochs: Epochs, is_leaving: trio.Event, commands: NodeCommands
) -> NodedHandlers:
    """The handlers of a node.

    Args: is_leaving: is set when the node has left the cluster.
    Raises: InvalidRequest: Ganeti's variables for a virtual cluster contradict each other.
    """
    paths, own_name = settings.paths, settings.cluster.own_name
    places = NodePaths(paths, WireNames.of_installation(settings.root, os.environ))
    version = settings.ganeti.release or release()
    return NodedHandlers(
        queue=QueueHandlers(queue, places),
        uploads=UploadHandlers(settings, places),
        facts=FactsHandlers(),
        mastership=FailoverHandlers(settings, epochs),
        membership=MembershipHandlers(paths, queue, own_name, is_leaving.set, commands.leave),
        verifying=VerifyHandlers(paths, places, own_name, settings.noded.port, version),
        work=WorkHandlers(paths, commands),
    )


def _begin(queue: QueueFileCopies) -> None:
    """Prepare the queue; a queue that cannot be used fails its own calls, one by one."""
    try:
        queue.begin()
    except (GantryError, OSError) as error:
        _log.error("queue.unusable", reason=explain(error))


def _remove_leftovers(paths: Paths) -> None:
    """Remove unfinished files of an earlier noded that was killed, as soon as nobody else can be writing them."""
    for folder in (paths.data, paths.queue, paths.submissions, paths.waits):
        try:
            left = remove_leftovers(folder, lambda _: True, min_age_s=_LEFT_AFTER_S)
        except OSError as error:
            _log.warning("leftovers.kept", folder=folder, reason=explain(error))
            continue
        if left:
            _log.info("writes.cut_off", files=",".join(sorted(set(left))), effect="each file is as it was before")


async def _at_the_end(act: Callable[[], None]) -> None:
    """Do this as soon as the daemon is told to end, while calls under way are still being finished."""
    try:
        await trio.sleep_forever()
    finally:
        act()


async def _end_after(is_leaving: trio.Event, paths: Paths) -> None:
    """End the daemons as an operator would, when the node has left and its reply is on its way.

    A supervisor would start this daemon again and again; it ends with all daemons of the node.
    """
    await is_leaving.wait()
    await trio.sleep(_FAREWELL_S)
    supervisor = await in_thread(find_supervisor, paths)
    os.kill(os.getpid() if supervisor is None else supervisor.pid, signal.SIGTERM)


if __name__ == "__main__":
    main()
