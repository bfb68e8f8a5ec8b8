"""The calls of every day: change waiting jobs, run ended ones again, look back.

Source: DESIGN sections 15 and 16.
"""

import orjson

from common.ids import JobId
from protocol.luxi.history import Past, ReadHistory, SummarizeHistory
from protocol.rapid.clients.httpcall import HttpCall, post
from protocol.rapid.jobactions import ManyChanged
from protocol.rapid.jobchanges import HoldMany, ModifyMany, ReleaseMany
from protocol.rapid.past import History, HistorySummary
from protocol.rapid.reruns import ManyRerun, Rerun, RerunMany


def hold_many(wish: HoldMany) -> HttpCall[ManyChanged]:
    return post("/3/jobs/hold", ManyChanged, wish, is_repeatable=wish.dry_run)


def release_many(wish: ReleaseMany) -> HttpCall[ManyChanged]:
    return post("/3/jobs/release", ManyChanged, wish, is_repeatable=wish.dry_run)


def modify_many(wish: ModifyMany) -> HttpCall[ManyChanged]:
    return post("/3/jobs/modify", ManyChanged, wish, is_repeatable=wish.dry_run)


def rerun_job(job_id: JobId) -> HttpCall[Rerun]:
    return post(f"/3/jobs/{int(job_id)}/rerun", Rerun)


def rerun_many(wish: RerunMany) -> HttpCall[ManyRerun]:
    return post("/3/jobs/rerun", ManyRerun, wish, is_repeatable=wish.dry_run)


def read_history(wish: ReadHistory) -> HttpCall[History]:
    own = {"sort": wish.sort.value, "ascending": "true" if wish.is_ascending else "false"}
    part = {"limit": str(wish.limit), "offset": str(wish.offset)}
    return HttpCall("GET", "/3/history", History, {**_choice(wish.choice), **own, **part})


def summarize_history(wish: SummarizeHistory) -> HttpCall[HistorySummary]:
    label = {"label": wish.label} if wish.label else {}
    params = {**_choice(wish.choice), "by": wish.by.value, "zone": wish.zone, **label}
    return HttpCall("GET", "/3/history/summary", HistorySummary, params)


def _choice(choice: Past) -> dict[str, str]:
    given = {
        "since": None if choice.since is None else repr(choice.since),
        "until": None if choice.until is None else repr(choice.until),
        "status": ",".join(state.value for state in choice.states),
        "filter": None if choice.filter is None else orjson.dumps(choice.filter).decode(),
    }
    return {name: value for name, value in given.items() if value}
