"""What befalls three nodes: daemons that are killed at random, and cuts of a node's network."""

import contextlib
import os
import queue
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from tests.support.machines.fleet import Fleet
from tests.support.machines.proxy import Behaviour, Proxy

# share of changes during which harm is done, and seconds from their beginning
_SHARE: Final = 0.3
_DELAY_S: Final = (0.0, 0.1)
# seconds for which a harm lasts
_AWAY_S: Final = (0.0, 3.0)
# harms that are not done yet; then the changes wait
_MOST_AHEAD: Final = 2
_CUTS: Final = (Behaviour.STOP, Behaviour.DELAY, Behaviour.RESET, Behaviour.GARBAGE)


class Harms:
    """Does harm in a thread of its own, one after the other; a context manager that leaves all nodes sound.

    Args:
        seed: decides during which changes what befalls whom, and for how long.
        kills_jobs: whether job processes are killed, too.
    """

    def __init__(self, fleet: Fleet, proxies: Sequence[Proxy], seed: str, *, kills_jobs: bool = False) -> None:
        self._kills_jobs = kills_jobs
        self._fleet = fleet
        self._proxies = proxies
        self._chance = random.Random(seed)
        self._draw = random.Random(f"{seed} of the harms")
        # seconds until a harm; None: there is none any more
        self._orders: queue.Queue[float | None] = queue.Queue(_MOST_AHEAD)
        self._thread = threading.Thread(target=self._run)
        # ends of harms that last, each with its time
        self._present: list[tuple[float, Callable[[], None]]] = []
        # restarts that are not over: a daemon of the master waits for the votes of nodes that are away
        self._restarts: dict[str, threading.Thread] = {}
        self.done: Counter[str] = Counter()
        self.failure: BaseException | None = None

    def __enter__(self) -> "Harms":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._orders.put(None)
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def count(self, kind: str) -> int:
        return sum(count for name, count in self.done.items() if name.startswith(kind))

    def may_strike(self) -> None:
        """Perhaps do harm while the next change is made."""
        if self.failure is None and self._draw.random() < _SHARE:
            self._orders.put(self._draw.uniform(*_DELAY_S))

    def _run(self) -> None:
        try:
            while (delay_s := self._next()) is not None:
                time.sleep(delay_s)
                self._strike()
        except BaseException as error:
            self.failure = error
            # nobody waits for room
            while self._orders.get() is not None:
                pass
        finally:
            self._pass(float("inf"))
            for restart in self._restarts.values():
                restart.join()

    def _next(self) -> float | None:
        """Wait for the next order, and end what is over meanwhile."""
        while True:
            self._pass(time.monotonic())
            wait_s = min((at for at, _ in self._present), default=float("inf")) - time.monotonic()
            try:
                return self._orders.get(timeout=None if wait_s == float("inf") else max(wait_s, 0.0))
            except queue.Empty:
                continue

    def _strike(self) -> None:
        acts = {self._kill_noded: 4, self._cut: 4, self._kill_luxid: 2, self._kill_wconfd: 2}
        if self._kills_jobs:
            acts[self._kill_job_process] = 6
        self._chance.choices(list(acts), list(acts.values()))[0]()

    def _pass(self, now: float) -> None:
        """End the harms whose time is over."""
        due = [end for at, end in self._present if at <= now]
        self._present = [(at, end) for at, end in self._present if at > now]
        for end in due:
            end()

    def _lasts(self, end: Callable[[], None]) -> None:
        self._present.append((time.monotonic() + self._chance.uniform(*_AWAY_S), end))

    def _kill_luxid(self) -> None:
        self._restart("luxid")

    def _kill_wconfd(self) -> None:
        self._restart("wconfd")

    def _kill_job_process(self) -> None:
        pids = list(self._fleet.master.job_pids())
        if pids:
            self.done["kill job process"] += 1
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._chance.choice(pids), signal.SIGKILL)

    def _restart(self, daemon: str) -> None:
        if (last := self._restarts.get(daemon)) is not None and last.is_alive():
            return
        self.done[f"kill {daemon}"] += 1
        self._restarts[daemon] = threading.Thread(target=self._restart_now, args=(daemon,))
        self._restarts[daemon].start()

    def _restart_now(self, daemon: str) -> None:
        try:
            self._fleet.master.restart(daemon)
        except BaseException as error:
            self.failure = error

    def _kill_noded(self) -> None:
        cluster = self._chance.choice([self._fleet.master, *(node.cluster for node in self._fleet.nodes)])
        if "noded" not in cluster.daemons:
            return
        self.done["kill noded"] += 1
        cluster.kill("noded")
        self._lasts(lambda: cluster.start("noded"))

    def _cut(self) -> None:
        proxy, behaviour = self._chance.choice(self._proxies), self._chance.choice(_CUTS)
        self.done[f"cut {behaviour.value}"] += 1
        proxy.behave(behaviour)
        self._lasts(lambda: proxy.behave(Behaviour.PASS))
