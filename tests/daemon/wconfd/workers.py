"""Owners that take and give back locks without end, and know what the disk may say of them after a crash."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.daemon.wconfd.wire import Wire, WireOwner
from tests.support.fakes.durable import durable_locks
from tests.support.wait import PATIENCE_S


class Worker(threading.Thread):
    """One owner with one lock; repeats a call whose answer was lost, as every client does.

    Args:
        wait: queue for the lock and wait, as it is shared with others; otherwise take it at once.
        more: so many locks are taken with it, which no other worker wants.
    """

    def __init__(self, socket: Path, owner: WireOwner, lock: str, *, wait: bool, more: int = 0) -> None:
        super().__init__(daemon=True)
        self._socket = socket
        self.owner = owner
        self.lock = lock
        self._wait = wait
        self.others = [f"network/{owner[0]}-{number:04}" for number in range(more)]
        # whether the lock is held, by all acknowledged calls and, if one is under way, with or without it
        self.possible = {False}
        self.acknowledged = 0
        self.is_cut_off = threading.Event()
        self._may_connect = threading.Event()
        self._may_connect.set()
        self._may_go = True
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self.failure = error
            self.is_cut_off.set()

    def reconnect(self) -> None:
        """Let it go on after the connection was lost."""
        self.is_cut_off.clear()
        self._may_connect.set()

    def finish(self) -> None:
        """End it with the lock given back; raises what went wrong in it."""
        self._may_go = False
        self.join(PATIENCE_S)
        assert not self.is_alive()
        if self.failure:
            raise self.failure

    def _work(self) -> None:
        call = Wire(self._socket)
        steps = self._steps()
        step = next(steps, None)
        while step is not None:
            try:
                answer = call(*step)
            except (OSError, EOFError):
                call.close()
                call = self._connected_again()
                continue
            self.acknowledged += 1
            if answer is not False:
                self._take_note(step)
                step = next(steps, None)
        call.close()

    def _steps(self) -> Iterator[tuple[Any, ...]]:
        request = [[name, "exclusive"] for name in (self.lock, *self.others)]
        while self._may_go:
            self.possible = {False, True}
            if self._wait:
                yield "updateLocksWaiting", self.owner, 0, request
                yield "waitLocks", self.owner, 30
            else:
                yield "tryUpdateLocks", self.owner, request
            self.possible = {False, True}
            yield "freeLocks", self.owner

    def _take_note(self, step: tuple[Any, ...]) -> None:
        if step[0] != "updateLocksWaiting":
            self.possible = {step[0] != "freeLocks"}

    def _connected_again(self) -> Wire:
        self._may_connect.clear()
        self.is_cut_off.set()
        assert self._may_connect.wait(2 * PATIENCE_S)
        return Wire(self._socket)


def holders(locks_data: Path) -> dict[str, set[str]]:
    """livelock -> locks, as the disk says now."""
    allocation, _ = json.loads(durable_locks(locks_data))
    return {owner[1]: {lock for lock, _ in owned} for owner, owned in allocation}
