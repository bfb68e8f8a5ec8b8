"""rapid under load: requests a second beside a bare server, long lists, and a crowd that waits and vanishes.

`python -m tests.bench http [PART ...]`: parts are `rates`, `lists` and `crowd`. It ends with a list of what was missed;
rates depend on the machine: see their ratio to the bare server of the same run.
"""

import os
import resource
import selectors
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Final

from tests.bench.bare.webserver import bare_server
from tests.bench.figures import RUNS, median_ms, show
from tests.bench.procs import cpu_s, memory_mib
from tests.bench.queued import pause_all, put_jobs, startup
from tests.support.machines.nodes import HOST
from tests.support.sockets.ports import free_port
from tests.support.wait import wait_until
from tests.support.web.httpwire import Wire, request
from tests.support.web.rapid import Web
from tests.support.web.webcrowd import Crowd, load

USER: Final = ("bench", "abc123")
CONNECTIONS: Final = (1, 50)
DURATION_S: Final = 2.0
JOBS: Final = 100_000
CROWD: Final = 500
# DESIGN 9, and issue 12
GETS: Final = 1500.0
SUBMITS: Final = 300.0
MEMORY_MIB: Final = 150.0
CLEAN_UP_S: Final = 10.0
LIST_MS: Final = 100.0
PAGE_MS: Final = 300.0
_RUNS: Final = 5
_BOARDS: Final = ("locks", "filters", "rates", "history", "schedules", "resources")


class Verdict:
    """What was measured and missed."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def show(self, what: str, value: float, unit: str, remark: str = "") -> None:
        show(what, value, unit, remark)

    def at_most(self, what: str, value: float, unit: str, bound: float, remark: str = "") -> None:
        """Show a figure that must not exceed a bound."""
        self._judge(what, value, unit, f"at most {bound:g}{remark and f'; {remark}'}", is_met=value <= bound)

    def at_least(self, what: str, value: float, unit: str, bound: float, remark: str = "") -> None:
        """Show a figure that must reach a bound."""
        self._judge(what, value, unit, f"at least {bound:g}{remark and f'; {remark}'}", is_met=value >= bound)

    def _judge(self, what: str, value: float, unit: str, remark: str, *, is_met: bool) -> None:
        show(what, value, unit, remark)
        if not is_met:
            self.missed.append(f"{what}: {value:.1f} {unit}, wanted: {remark}")


def main(parts: Sequence[str] = ()) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    known: dict[str, Callable[[Path, Verdict], None]] = {"rates": rates, "lists": lists, "crowd": crowd}
    verdict = Verdict()
    for part in parts or known:
        with tempfile.TemporaryDirectory(prefix="gantry-bench-") as scratch:
            known[part](Path(scratch), verdict)
    if verdict.missed:
        sys.exit("missed:\n" + "\n".join(verdict.missed))


def rates(folder: Path, verdict: Verdict) -> None:
    """Requests a second, over the network and over the Unix socket, on one and many connections."""
    with _web(folder / "cluster") as web:
        web.start()
        pause_all(web.cluster)
        job_id = web.cluster.submit(startup(0))
        bare_socket, bare_port = folder / "bare", free_port()
        with bare_server(bare_socket, bare_port, web.paths.rapi_pem):
            for connections in CONNECTIONS:
                _rates(web, verdict, "https", connections, bare_port, job_id)
                _rates(web, verdict, "socket", connections, bare_socket, job_id)


def _rates(web: Web, verdict: Verdict, way: str, connections: int, bare: int | Path, job_id: int) -> None:
    user = USER if way == "https" else None
    fresh = count(1)
    hello = request("GET", "/", user=user)
    get = request("GET", f"/3/jobs/{job_id}", user=user)

    def submission() -> bytes:
        return request("POST", "/3/jobs", {"jobs": [{"ops": [startup(next(fresh))]}]}, user)

    with ExitStack() as stack:

        def wires(to: int | Path) -> list[Wire]:
            return [
                stack.enter_context(Wire.local(to) if isinstance(to, Path) else Wire.remote(HOST, to, web.tls()))
                for _ in range(connections)
            ]

        strangers, ours = wires(bare), wires(web.paths.rapid_socket if way == "socket" else web.port)
        for wire in ours:
            # the first request of a connection has its password checked
            wire.call(get)
        found: dict[str, list[float]] = {"hello": [], "get": [], "submit": []}
        spent: dict[str, list[float]] = {"get": [], "submit": []}
        for _ in range(RUNS):
            found["hello"].append(rate(strangers, lambda: hello, DURATION_S))
            for name, make in (("get", lambda: get), ("submit", submission)):
                before = cpu_s(web.pid)
                per_s = rate(ours, make, DURATION_S)
                found[name].append(per_s)
                spent[name].append((cpu_s(web.pid) - before) / (per_s * DURATION_S) * 1000)
    suffix = f"{way}, {connections} connection(s)"
    bare_rate = statistics.median(found["hello"])
    show(f"bare hello, {suffix}", bare_rate, "/s")
    for name, what, bound in (("get", "GET of a job", GETS), ("submit", "submission of a job", SUBMITS)):
        per_s = statistics.median(found[name])
        remark = f"{per_s / bare_rate:.2f} of the bare hello; {statistics.median(spent[name]):.2f} ms CPU of rapid each"
        if connections == 1:
            verdict.at_least(f"{what}, {suffix}", per_s, "/s", bound, remark)
        else:
            verdict.show(f"{what}, {suffix}", per_s, "/s", remark)


def rate(wires: Sequence[Wire], make: Callable[[], bytes], duration_s: float) -> float:
    """Requests a second over these connections, each of which has one under way at all times."""
    with selectors.DefaultSelector() as selector:
        for wire in wires:
            selector.register(wire.sock, selectors.EVENT_READ, wire)
            wire.sock.sendall(make())
        began, answered, pending = time.perf_counter(), 0, len(wires)
        while pending:
            for key, _ in selector.select():
                key.data.reply()
                answered += 1
                if time.perf_counter() - began < duration_s:
                    key.data.sock.sendall(make())
                else:
                    pending -= 1
        return answered / (time.perf_counter() - began)


def lists(folder: Path, verdict: Verdict) -> None:
    """The first page of a list, and the web page, with many jobs in the queue."""
    with _web(folder / "cluster") as web:
        web.start("wconfd", "forkserver", "luxid")
        pause_all(web.cluster)
        web.cluster.kill("luxid")
        put_jobs(web.paths, JOBS)
        web.start("luxid", "rapid")
        questions: dict[str, tuple[str, float | None]] = {
            "first page of the list": ("/3/jobs", LIST_MS),
            "first page of the list, filtered by status": ("/3/jobs?filter=status%3Dqueued", LIST_MS),
            "the list by a filter that no job meets": ("/3/jobs?filter=status%3Derror", None),
            "the first web page": ("/ui", PAGE_MS),
            "the web page of jobs": ("/ui/jobs", PAGE_MS),
            "the same of those that run": ("/ui/jobs?where=status%3Drunning", PAGE_MS),
            "the same of a word that no job has": ("/ui/jobs?where=nowhere", None),
            "the web page of a job": (f"/ui/jobs/{JOBS // 2}", PAGE_MS),
            **{f"the web page of {name}": (f"/ui/{name}", PAGE_MS) for name in _BOARDS},
            "all of them by /2/jobs?bulk=1": ("/2/jobs?bulk=1", None),
        }
        with Wire.local(web.paths.rapid_socket) as wire:
            for what, (path, bound) in questions.items():
                asked = request("GET", path)
                size = len(wire.call(asked))
                before = _spent(web)
                took = median_ms(lambda asked=asked: wire.call(asked), _RUNS)  # type: ignore[misc]  # of this turn
                remark = f"{size / 1024:.0f} KiB; CPU of {_used_ms(before, _spent(web), _RUNS)}"
                if bound is None:
                    # all jobs are looked at, in turns
                    verdict.show(f"{what}, {JOBS} jobs", took, "ms", remark)
                else:
                    verdict.at_most(f"{what}, {JOBS} jobs", took, "ms", bound, remark)
        show(f"memory of rapid, {JOBS} jobs", memory_mib(web.pid), "MiB")


def _spent(web: Web) -> dict[str, float]:
    """Seconds of CPU of those who make pages, so far."""
    return {name: cpu_s(web.cluster.daemons[name].pid) for name in ("luxid", "rapid")}


def _used_ms(before: Mapping[str, float], now: Mapping[str, float], count: int) -> str:
    return ", ".join(f"{name} {(now[name] - before[name]) / count * 1000:.0f} ms" for name in now)


def crowd(folder: Path, verdict: Verdict) -> None:
    """Many long polls and streams: memory, CPU while jobs change, and how long a vanished crowd stays."""
    with _web(folder / "cluster") as web, Crowd(web) as clients:
        web.start()
        pause_all(web.cluster)
        job_ids = web.cluster.submit_many(*((startup(number),) for number in range(CROWD)))
        before = memory_mib(web.pid)
        clients.wait_for(job_ids)
        clients.listen(CROWD)
        clients.settle()
        remark = f"{before:.0f} MiB before they came"
        verdict.at_most(
            f"memory of rapid, {CROWD} waits, {CROWD} streams", memory_mib(web.pid), "MiB", MEMORY_MIB, remark
        )
        show("memory of luxid with them", memory_mib(web.cluster.daemons["luxid"].pid), "MiB")
        spent = {name: cpu_s(web.cluster.daemons[name].pid) for name in ("rapid", "luxid")}
        changes = 20
        for number in range(changes):
            web.cluster.submit(startup(CROWD + number))
            time.sleep(0.1)
        for name, seconds in spent.items():
            used = (cpu_s(web.cluster.daemons[name].pid) - seconds) / changes * 1000
            show(f"CPU of {name} for a change that {CROWD} streams tell", used, "ms")
        began = time.perf_counter()
        clients.vanish()
        wait_until(lambda: _is_quiet(web), what="nothing of the crowd is left", state=lambda: load(web))
        verdict.at_most(f"all {2 * CROWD} vanish: until nothing is left", time.perf_counter() - began, "s", CLEAN_UP_S)
        show("memory of rapid afterwards", memory_mib(web.pid), "MiB")


def _is_quiet(web: Web) -> bool:
    """Whether rapid waits for nobody, and has closed the connections of those who have gone."""
    sockets = len(os.listdir(f"/proc/{web.pid}/fd"))
    return load(web) == {"requests": 0, "waiting": 0, "calls": 0} and sockets < 100


@contextmanager
def _web(root: Path) -> Iterator[Web]:
    """A cluster with a user for HTTP, not started."""
    with Web(root) as web:
        web.paths.rapi.mkdir(parents=True, exist_ok=True)
        web.paths.rapi_users.write_text(f"{' '.join(USER)} write\n")
        yield web
