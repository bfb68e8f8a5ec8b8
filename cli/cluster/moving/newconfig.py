"""Name this node as the master in its copy of the configuration, and send that to all nodes.

A wconfd is started for it, which serves the copy as no other one does now; it ends with this program, whatever ends
that one.

Source: masterfailover.md 3, part C.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from common.daemons import daemon_named
from common.errors import NotFound, Unavailable
from common.settings import Settings
from common.system.interpreter import python_command, python_environment
from protocol.blocking import BlockingClient
from protocol.dial import pauses
from protocol.wconfd.changes import UpdateCluster
from protocol.wconfd.config import GetObject, ListNodesBehind, NodeBehind
from protocol.wconfd.locks import Echo

# time for wconfd to be ready, and to end
_READY_S: Final = 60.0
_END_S: Final = 30.0
_PR_SET_PDEATHSIG: Final = 1


def name_master(settings: Settings) -> Sequence[NodeBehind]:
    """Make this node the master by the configuration; return the nodes that were not reached with it.

    Raises: Unavailable: wconfd does not start, or does not reply. NotFound: this node is not in the configuration.
        RemoteError. OSError.
    Durability: on return the change survives a loss of power here, and on the nodes that were reached.
    """
    with _wconfd(settings) as wconfd:
        cluster = wconfd.call(GetObject("cluster"))
        uuid = _uuid(wconfd, settings.cluster.own_name)
        if cluster["master_node"] != uuid:
            wconfd.call(UpdateCluster({**cluster, "master_node": uuid}))
        return wconfd.call(ListNodesBehind())


def _uuid(wconfd: BlockingClient, name: str) -> str:
    uuid = wconfd.call(GetObject("node", name)).get("uuid")
    if not isinstance(uuid, str):
        raise NotFound(f"the configuration has no node '{name}'")
    return uuid


@contextmanager
def _wconfd(settings: Settings) -> Iterator[BlockingClient]:
    place = [] if settings.root is None else ["--root", str(settings.root)]
    forced = ("--force-node", "--no-voting", "--yes-do-it")
    owner = _owner(settings)
    process = subprocess.Popen(
        python_command(daemon_named("wconfd").module, *place, *forced),
        env=python_environment(),
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=_dying_with_parent(),
        user=owner and owner[0],
        group=owner and owner[1],
        extra_groups=owner and [],
    )
    assert process.stderr is not None
    try:
        with BlockingClient(settings.paths.wconfd_socket, connect_timeout_s=0, daemon="wconfd") as client:
            _until_ready(process, client)
            yield client
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        process.kill()
        process.wait()
        process.stderr.close()


def _owner(settings: Settings) -> tuple[int, int] | None:
    """As root: user and group of the daemons, who must be able to read what is written; None: those of this process."""
    if os.geteuid() != 0:
        return None
    status = settings.paths.data.stat()
    return status.st_uid, status.st_gid


def _dying_with_parent() -> Callable[[], None]:
    libc, parent = ctypes.CDLL(None, use_errno=True), os.getpid()

    def prepare() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def _until_ready(process: "subprocess.Popen[bytes]", client: BlockingClient) -> None:
    """Raises: Unavailable: it ended, or is not ready in time."""
    deadline = time.monotonic() + _READY_S
    for pause_s in pauses():
        if process.poll() is not None:
            assert process.stderr is not None
            said = process.stderr.read().decode(errors="replace").strip()
            raise Unavailable(f"wconfd did not start from this node's copy of the configuration: {said}")
        try:
            client.call(Echo("ready"))
            return
        except Unavailable:
            if time.monotonic() > deadline:
                raise
        time.sleep(pause_s)
