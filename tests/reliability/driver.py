"""The client of a run: it asks, keeps what it was told, and has daemons that ended started again."""

import contextlib
import select
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from common.errors import GantryError, RemoteError, Unavailable
from common.ids import JobId
from common.locks import LockMode, LockRequest, Owner, parse_lock
from common.resources import Resource
from common.schedules.schedule import Missed, Overlap
from common.system.livelock import Livelock
from protocol.blocking import BlockingClient
from protocol.luxi.history import Prune
from protocol.luxi.jobs import ArchiveJob, AutoArchiveJobs, CancelJob, SubmitJob, SubmitManyJobs
from protocol.luxi.queries import WaitForJobChange
from protocol.luxi.queue import (
    AddSchedule,
    DeleteFilter,
    ListSchedules,
    PauseSchedule,
    RemoveResource,
    RemoveScheduleOf,
    ReplaceFilter,
    RunSchedule,
    ScheduleRequest,
    SetDrainFlag,
    SetResource,
)
from protocol.messages import Request
from protocol.wconfd.changes import AddTcpUdpPort
from protocol.wconfd.locks import FreeLocks, TryUpdateLocks
from tests.reliability.farm import Farm
from tests.reliability.ledger import FINAL, Exchange, Outcome
from tests.reliability.oracle import Rules, View, untold
from tests.reliability.views import past_of_daemons, runs_with_jobs, view_of_daemons

# everything is at rest after this, or it never will be
PATIENCE_S: Final = 45.0
_TRIES: Final = 12
_CALL_S: Final = 20.0


class NoRest(Exception):
    """something did not end by itself"""


class Driver:
    """Asks the daemons of a farm, one call after the other."""

    def __init__(self, farm: Farm, tally: Path, *, prefix: str = "t") -> None:
        self.farm = farm
        self.tally = tally
        self.exchanges: list[Exchange] = []
        self.internal_errors: list[str] = []
        self.rules = Rules()
        self._luxid = BlockingClient(farm.paths.query_socket, connect_timeout_s=0.05)
        self._wconfd = BlockingClient(farm.paths.wconfd_socket, connect_timeout_s=0.05)
        self._owners: dict[str, Owner] = {}
        self._livelocks: list[Livelock] = []
        # of the tokens of this driver's opcodes
        self._prefix = prefix
        self._tokens = 0
        tally.touch()

    def close(self) -> None:
        self._luxid.close()
        self._wconfd.close()
        for livelock in self._livelocks:
            livelock.remove()

    def work(
        self, *, locks: dict[str, str] | None = None, after: Sequence[int] = (), seconds: float = 0, **fields: Any
    ) -> dict[str, Any]:
        """An opcode that says in the tally that it runs, and after these seconds that it has run."""
        self._tokens += 1
        token = f"{self._prefix}{self._tokens}"
        pause = f"sleep {seconds}; " if seconds else ""
        script = f"echo {token}+ >> {self.tally}; {pause}echo {token}- >> {self.tally}"
        depends = {"depends": [[job_id, ["success"]] for job_id in after]} if after else {}
        argv = ["/bin/sh", "-c", script]
        return {"OP_ID": "OP_RUN_COMMAND", "argv": argv, "comment": token, "locks": locks or {}, **depends, **fields}

    def submit(self, *ops: dict[str, Any]) -> list[int]:
        """One job; its id in a list, or nothing if there was no answer."""
        return list(
            self._ask("submit", ((_tokens(ops),),), SubmitJob(ops), lambda job_id: (int(job_id),), repeat=False) or ()
        )

    def submit_many(self, *jobs: tuple[dict[str, Any], ...], key: str | None = None) -> list[int]:
        tokens = tuple(_tokens(job) for job in jobs)
        request = SubmitManyJobs(jobs, key)
        ids = self._ask(
            "submit", (tokens,), request, lambda taken: tuple(each.job_id for each in taken), repeat=key is not None
        )
        return list(ids or ())

    def wait_for(self, *job_ids: int, states: Sequence[str] = FINAL) -> None:
        """Wait until the jobs are in one of these states (or final), and take note of what is seen."""
        for job_id in job_ids:
            state, deadline = None, time.monotonic() + PATIENCE_S
            while state not in (*states, *FINAL):
                request = WaitForJobChange(JobId(job_id), ("status",), None if state is None else [state], None, 2.0)
                self.farm.revive()
                state = self._ask("saw", (job_id,), request, lambda news: news.values[0]) or state
                if time.monotonic() > deadline:
                    raise NoRest(f"job {job_id} is {state} for {PATIENCE_S:g} s")

    def cancel(self, job_id: int) -> None:
        self._ask(
            "cancel", (job_id,), CancelJob(JobId(job_id)), lambda done: done.is_done and "was canceled" in done.message
        )

    def archive(self, *job_ids: int) -> None:
        if len(job_ids) == 1:
            self._ask("archive", (job_ids,), ArchiveJob(JobId(job_ids[0])), bool)
        else:
            self._ask(
                "archive", (job_ids,), AutoArchiveJobs(-1, 30), lambda reply: reply.archived_count == len(job_ids)
            )

    def drain(self, flag: bool) -> None:
        self._ask("drain", (flag,), SetDrainFlag(flag))

    def add_filter(self, name: str, *, uuid: str | None = None) -> str | None:
        """A rule that is about no job."""
        predicates = (("opcode", ["=", "OP_ID", "OP_NONE"]),)
        request = ReplaceFilter(uuid, 1, predicates, "REJECT", (("test", name, 1),))
        uuid_of_rule: str | None = self._ask("add-filter", (name,), request, str)
        return uuid_of_rule

    def delete_filter(self, uuid: str) -> None:
        self._ask("delete-filter", (uuid,), DeleteFilter(uuid), repeat=False)

    def add_port(self, port: int) -> None:
        self._ask("port", (port,), AddTcpUdpPort(port))

    def lock(self, name: str, lock: str) -> None:
        """Take a lock exclusively if it is free, as an owner that lives as long as this process."""
        if name not in self._owners:
            self._livelocks.append(livelock := Livelock.create(self.farm.paths.livelocks, name))
            self._owners[name] = Owner(name, livelock.path)
        requests = (LockRequest(parse_lock(lock), LockMode.EXCLUSIVE),)
        request = TryUpdateLocks(self._owners[name], requests)
        self._ask("lock", (name, lock), request, lambda blocked_on: not blocked_on)

    def free(self, name: str) -> None:
        self._ask("free", (name,), FreeLocks(self._owners[name]))

    def add_schedule(self, name: str, *, every_s: float = 3600.0) -> None:
        # no token: all its jobs are alike
        job = ({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": {}},)
        wish = ScheduleRequest(name=name, every_s=every_s, job=job, overlap=Overlap.ALLOW, missed=Missed.ONCE)
        # sent again it meets its own name
        self._ask("keep", (f"schedule {name}", False), AddSchedule(wish), repeat=False)

    def pause_schedule(self, name: str, flag: bool) -> None:
        self._ask("keep", (f"schedule {name}", flag), PauseSchedule(name, flag))

    def remove_schedule(self, name: str) -> None:
        self._ask("keep", (f"schedule {name}", None), RemoveScheduleOf(name))

    def run_schedule(self, name: str, key: str) -> list[int]:
        request = RunSchedule(name, key)
        return list(self._ask("submit", ((("",),),), request, lambda job_id: (int(job_id),)) or ())

    def wait_for_runs(self, name: str, count: int) -> None:
        """Wait until so many runs have their jobs."""
        deadline = time.monotonic() + PATIENCE_S
        seen = 0
        while seen < count:
            self.farm.revive()
            seen = len(self._ask("runs", (), ListSchedules(0, (name,)), runs_with_jobs) or ())
            if time.monotonic() > deadline:
                raise NoRest(f"schedule {name} has {seen} runs")
            time.sleep(0.1)

    def set_resource(self, name: str, total: int) -> None:
        self._ask("keep", (f"resource {name}", total), SetResource(Resource("", name, total)))

    def remove_resource(self, name: str) -> None:
        self._ask("keep", (f"resource {name}", None), RemoveResource("", name))

    def prune(self, *job_ids: int) -> None:
        """Remove these archived jobs, which are those that are due."""
        deadline = time.monotonic() + PATIENCE_S
        while self._ask("prune", (job_ids,), Prune(), lambda reply: reply.jobs == len(job_ids)) is None:
            # the history is being read still
            if time.monotonic() > deadline:
                raise NoRest("nothing can be pruned")

    def past(self) -> Mapping[int, str]:
        """The history, as soon as it has all jobs that have ended."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self.farm.revive()
            with contextlib.suppress(Unavailable, RemoteError):
                if (found := past_of_daemons(self._luxid)) is not None:
                    return found
            if time.monotonic() > deadline:
                raise NoRest("the history is not complete")
            time.sleep(0.05)

    def take_rules(self, **rules: Any) -> None:
        self.rules = attrs.evolve(self.rules, **rules)

    def view(self) -> View:
        """What the daemons say, as soon as they can be asked."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self.farm.revive()
            try:
                return view_of_daemons(self.farm.paths, self._luxid, self._wconfd)
            except (Unavailable, RemoteError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def rest(self) -> View:
        """Wait until all jobs are final and no lock is held but those of this driver.

        Raises: NoRest.
        """
        deadline = time.monotonic() + PATIENCE_S
        pause = 0.005
        while True:
            view = self.view()
            busy = [f"job {job.job_id} is {job.state}" for job in view.jobs if job.state not in FINAL]
            busy += [
                f"{owner} holds {set(locks)}"
                for owner, locks in (view.locks or {}).items()
                if owner not in self._owners
            ]
            busy += untold(view, self.tally_lines(), self.rules)
            if not busy:
                return attrs.evolve(view, past=self.past())
            if time.monotonic() > deadline:
                raise NoRest(f"after {PATIENCE_S:g} s: {'; '.join(busy)}")
            time.sleep(pause)
            pause = min(2 * pause, 0.1)

    def tally_lines(self) -> list[str]:
        return self.tally.read_text().splitlines()

    def _ask(
        self,
        what: str,
        args: tuple[Any, ...],
        request: Request[Any],
        read: Callable[[Any], Any] = lambda answer: True,
        *,
        repeat: bool = True,
    ) -> Any:
        """The answer, or None."""
        client = self._wconfd if type(request).__module__.startswith("protocol.wconfd") else self._luxid
        for _ in range(_TRIES if repeat else 1):
            exchange = Exchange(what, args)
            self.exchanges.append(exchange)
            try:
                answer = read(self._call(client, request))
            except RemoteError as error:
                if error.code == "internal":
                    self.internal_errors.append(f"{what} {args}: {error.message}")
                # who was refused a job has none of it; other changes may have been made when the disk complains
                self.exchanges[-1] = attrs.evolve(
                    exchange, outcome=Outcome.REFUSED if what == "submit" else Outcome.UNKNOWN
                )
                if error.code != "unavailable":
                    return None
            except GantryError:
                pass
            else:
                self.exchanges[-1] = attrs.evolve(exchange, outcome=Outcome.ANSWERED, answer=answer)
                return answer
            self.farm.revive()
            time.sleep(0.02)
        return None

    def _call(self, client: BlockingClient, request: Request[Any]) -> Any:
        """Call a daemon; meanwhile others that have ended are started again, for it may wait for them."""
        client.start(request, timeout_s=1)
        deadline = time.monotonic() + _CALL_S
        while time.monotonic() < deadline and not select.select([client], [], [], 0.1)[0]:
            self.farm.revive()
        return client.finish(request, timeout_s=1)


def _tokens(ops: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(op["comment"] for op in ops)
