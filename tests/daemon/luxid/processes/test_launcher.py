"""luxid's connection to the fork server (protocol/forkserver.py)."""

from pathlib import Path

import pytest
import trio
import trio.testing

from common.errors import ConnectionLost
from common.ids import JobId
from common.paths import Paths
from daemons.luxid.processes.launcher import ForkServerClient, LauncherEvents
from protocol.framing import pack

pytestmark = pytest.mark.trio


async def test_the_failure_of_a_start_leaves_the_next_connection_alone(tmp_path: Path) -> None:
    paths, lost = Paths.under_root(tmp_path), list[str]()
    paths.make_folders()
    client = ForkServerClient(paths)
    events = LauncherEvents(connected=lambda: None, lost=lambda: lost.append("lost"), exited=lambda _: None)
    failed = trio.Event()

    async def start_in_vain() -> None:
        with pytest.raises(ConnectionLost):
            await client.start(JobId(1))
        failed.set()

    with trio.socket.socket(trio.socket.AF_UNIX) as listener:
        await listener.bind(str(paths.forkserver_socket))
        listener.listen()
        async with trio.open_nursery() as nursery:
            await nursery.start(client.run, events)
            first, _ = await listener.accept()
            nursery.start_soon(start_in_vain)
            await first.recv(4096)
            # no process takes the connection away from it: luxid makes the next one at once
            first.close()
            await failed.wait()
            second, _ = await listener.accept()
            with second:
                await trio.testing.wait_all_tasks_blocked()
                assert lost == ["lost"]

                await second.send(pack(b'{"success": true, "result": 77}'))
                assert (await client.start(JobId(2))).pid == 77
            nursery.cancel_scope.cancel()
