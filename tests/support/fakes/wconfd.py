"""A lock daemon in a thread: the real allocation core behind a real socket, and nothing on disk."""

import contextlib
import socket
import threading
import time
from pathlib import Path
from typing import Any

from common.errors import GantryError
from common.locks import LockRequest, Owner
from common.objects.codec import to_json
from common.wire import unstructure
from daemons.wconfd.core.locks import waiting
from daemons.wconfd.core.locks.waiting import LockState, PendingRequest
from protocol.envelope import Call, failure, read_message, success
from protocol.framing import Framer, pack
from protocol.messages import Request, structure_request
from protocol.wconfd.changes import AllocatePort
from protocol.wconfd.config import ReadConfig
from protocol.wconfd.locks import (
    DownGradeLocksLevel,
    ExplainWait,
    FreeLocks,
    IntersectLocks,
    TryUpdateLocks,
    UpdateLocksWaiting,
    WaitLocks,
)
from tests.support.configs import small_config

_KINDS: dict[str, type[Request[Any]]] = {
    kind.METHOD: kind
    for kind in (
        UpdateLocksWaiting,
        TryUpdateLocks,
        WaitLocks,
        ExplainWait,
        FreeLocks,
        IntersectLocks,
        DownGradeLocksLevel,
        ReadConfig,
        AllocatePort,
    )
}


class FakeWconfd:
    """Answers at `path` between `start` and `stop`; what it knows survives both."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.state = LockState()
        # every request that was received, in order
        self.requests: list[Request[Any]] = []
        self.config: dict[str, Any] = to_json(small_config())
        self._changed = threading.Condition()
        self._sockets: list[socket.socket] = []
        self._is_up = False

    @property
    def methods(self) -> list[str]:
        return [request.METHOD for request in self.requests]

    def start(self) -> None:
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self._path))
        listener.listen(64)
        self._sockets = [listener]
        self._is_up = True
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def stop(self) -> None:
        """Break all connections, as a death would."""
        self._is_up = False
        for sock in tuple(self._sockets):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        with self._changed:
            self._changed.notify_all()

    def hold(self, owner: Owner, *requests: LockRequest) -> None:
        """Give locks to somebody."""
        with self._changed:
            change = waiting.try_update(self.state, owner, requests)
            assert not change.blocked_on
            self.state = change.state

    def ask(self, owner: Owner, *requests: LockRequest) -> None:
        """Somebody asks for locks that it must wait for."""
        with self._changed:
            assert self._become(waiting.update_or_queue(self.state, owner, 0, requests))

    def free(self, owner: Owner) -> None:
        """Somebody gives up everything."""
        with self._changed:
            self._become(waiting.free_all(self.state, owner))

    def owners(self) -> list[int | str]:
        """Who holds or waits."""
        return [owner.ident for owner in self.state.owners()]

    def pending(self) -> list[PendingRequest]:
        return list(self.state.all_pending())

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            self._sockets.append(sock)
            if listener.fileno() < 0:
                # stopped just now, which may have missed it
                sock.close()
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        framer = Framer()
        with contextlib.suppress(OSError), sock:
            while data := sock.recv(65536):
                for payload in framer.feed(data):
                    sock.sendall(pack(self._answer(payload)))

    def _answer(self, payload: bytes) -> bytes:
        call = read_message(payload)
        assert isinstance(call, Call)
        request = structure_request(_KINDS[call.method], call.params)
        with self._changed:
            self.requests.append(request)
            try:
                return success(call, unstructure(self._carry_out(request)))
            except GantryError as error:
                return failure(call, error)

    def _carry_out(self, request: Request[Any]) -> Any:
        match request:
            case UpdateLocksWaiting():
                return self._become(
                    waiting.update_or_queue(self.state, request.owner, request.priority, request.requests)
                )
            case TryUpdateLocks():
                return self._become(waiting.try_update(self.state, request.owner, request.requests))
            case FreeLocks():
                self._become(waiting.free_all(self.state, request.owner))
            case IntersectLocks():
                self._become(waiting.intersect(self.state, request.owner, request.locks))
            case DownGradeLocksLevel():
                self._become(waiting.downgrade_level(self.state, request.owner, request.level))
            case WaitLocks():
                return self._wait(request)
            case ExplainWait():
                # as Ganeti's would say
                raise GantryError(f"Undefined method {request.METHOD}")
            case ReadConfig():
                return self.config
            case AllocatePort():
                return 11000
            case _:
                pass
        return ()

    def _wait(self, request: WaitLocks) -> bool:
        deadline = time.monotonic() + request.timeout
        while self._is_up and self.state.pending_of(request.owner):
            if not self._changed.wait(deadline - time.monotonic()):
                return False
        return True

    def _become(self, change: waiting.LockChange) -> tuple[Owner, ...]:
        self.state = change.state
        self._changed.notify_all()
        return change.blocked_on
