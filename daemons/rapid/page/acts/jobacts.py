"""Cancel, kill, hold and release jobs, and change their priority.

Theory. The first form names jobs, or a filter; the reply lists what would be hit. The second form names exactly these
jobs: what comes between is not touched.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import attrs
from starlette.responses import Response

from common.errors import InvalidRequest
from common.ids import JobId
from common.query.qlang import Expression
from common.queue.jobs import FINAL_NAMES, SUBMIT_PRIORITIES
from common.words.fields import Row
from common.words.filters.jobfilter import all_of, job_filter
from daemons.rapid.calls import Asked
from daemons.rapid.page.logins import login_of
from daemons.rapid.page.pages import Pages
from daemons.rapid.page.reading.jobfacts import UNENDED, jobs_by_id, page_of_jobs
from daemons.rapid.page.views.boards import Confirmation, Done, DoneLine, Options, Words
from daemons.rapid.page.views.jobline import ROW_FIELDS, job_lines
from daemons.rapid.page.views.links import linked
from daemons.rapid.page.visits.login import form_of
from daemons.rapid.page.visits.visitors import Form, first, own_path
from protocol.luxi import jobs as luxi

# jobs that one form may hit, and those of them that are listed
MOST: Final = 1000
LISTED: Final = 200
# changes jobs by one call of luxid; one result for each, in order
Change = Callable[[Sequence[JobId]], Awaitable[Sequence[luxi.Done]]]
_VERBS: Final = {"priority": "change the priority of"}
# changes that cannot be taken back
_GRAVE: Final = ("cancel", "kill")


@attrs.frozen
class JobActs:
    _pages: Pages

    async def cancel(self, asked: Asked) -> Response:
        return await self._ask_or_do(
            asked, "cancel", "canceled", lambda ids: asked.daemons.luxid(luxi.CancelJobs(tuple(ids)))
        )

    async def kill(self, asked: Asked) -> Response:
        return await self._ask_or_do(
            asked, "kill", "killed", lambda ids: asked.daemons.luxid(luxi.CancelJobs(tuple(ids), kill=True))
        )

    async def prioritize(self, asked: Asked) -> Response:
        priority = SUBMIT_PRIORITIES.get(first(form_of(asked), "priority"), 0)
        options = Options("priority", "to", tuple((name, name) for name in SUBMIT_PRIORITIES))
        change = _changing(asked, luxi.JobChange(priority=priority))
        return await self._ask_or_do(asked, "priority", "changed", change, options)

    async def hold(self, asked: Asked) -> Response:
        change = _changing(asked, luxi.JobChange(hold=first(form_of(asked), "why").strip()))
        return await self._ask_or_do(asked, "hold", "held", change, Words("why", "because", "the mirror is down"))

    async def release(self, asked: Asked) -> Response:
        return await self._ask_or_do(asked, "release", "released", _changing(asked, luxi.JobChange(release=True)))

    async def _ask_or_do(self, asked: Asked, act: str, did: str, change: Change, *fields: Options | Words) -> Response:
        """Raises: Refused: a forged form. InvalidRequest: no job is named, or too many."""
        form = form_of(asked)
        self._pages.visitors.check_form(asked.http, form)
        if first(form, "sure") == "yes":
            return await self._do(asked, form, did, change)
        return await self._ask(asked, form, act, fields)

    async def _ask(self, asked: Asked, form: Form, act: str, fields: Sequence[Options | Words]) -> Response:
        rows = await _chosen(asked, form)
        hit = [row for row in rows if row["status"] not in FINAL_NAMES]
        verb = _VERBS.get(act, act)
        what = f"{len(hit)} job{'' if len(hit) == 1 else 's'}"
        view = Confirmation(
            f"{verb.capitalize()} {what}?" if hit else f"No job to {verb}",
            job_lines(hit[:LISTED], {}, {}, time.time(), login_of),
            max(0, len(hit) - LISTED),
            f"/ui/jobs/{act}",
            (("back", own_path(first(form, "back"), "/ui/jobs")), *(("job", str(row["id"])) for row in hit)),
            f"{verb} {what}",
            own_path(first(form, "back"), "/ui/jobs"),
            told=_left_out(len(rows) - len(hit)),
            none="None of these jobs is unfinished." if rows else "Choose jobs first, by their boxes.",
            fields=tuple(field for field in fields if isinstance(field, Options)),
            words=tuple(field for field in fields if isinstance(field, Words)),
            is_grave=act in _GRAVE,
            can_do=bool(hit),
        )
        return await self._pages.page(asked, "confirm", view.question, view)

    async def _do(self, asked: Asked, form: Form, did: str, change: Change) -> Response:
        job_ids = _ids(form)
        told = dict(zip(job_ids, await change(job_ids) if job_ids else (), strict=True))
        count = sum(each.is_done for each in told.values())
        lines = tuple(
            DoneLine(linked(text if str(job_id) in text else f"job {job_id}: {text}"), is_wrong=not each.is_done)
            for job_id, each in told.items()
            for text in (each.message,)
        )
        done = Done(f"{did.capitalize()}: {count} of {len(told)}", lines, own_path(first(form, "back"), "/ui/jobs"))
        return await self._pages.page(asked, "done", done.title, done)


def _changing(asked: Asked, change: luxi.JobChange) -> Change:
    return lambda ids: asked.daemons.luxid(luxi.ChangeJobs(tuple(ids), change))


def _left_out(count: int) -> str:
    return f"{count} of the chosen jobs {'has' if count == 1 else 'have'} ended already." if count else ""


async def _chosen(asked: Asked, form: Form) -> Sequence[Row]:
    """The jobs of a form: those that it names, or the unfinished ones of its filter."""
    if first(form, "every") != "yes":
        return await jobs_by_id(asked.daemons, _ids(form), ROW_FIELDS)
    where = first(form, "where").strip()
    parts = [UNENDED, job_filter(where, time.time(), None)] if where else [UNENDED]
    rows = await page_of_jobs(asked.daemons, ROW_FIELDS, Expression.from_wire(all_of(parts)), limit=MOST + 1)
    if len(rows) > MOST:
        raise InvalidRequest(f"more than {MOST} jobs would be hit, and one form takes no more; narrow the filter")
    return rows


def _ids(form: Form) -> list[JobId]:
    """Raises: InvalidRequest: a value is no id, or there are too many."""
    texts = list(dict.fromkeys(form.get("job", ())))
    if len(texts) > MOST:
        raise InvalidRequest(f"{len(texts)} jobs are chosen, and one form takes at most {MOST}")
    if wrong := [text for text in texts if not (text.isascii() and text.isdigit() and len(text) < 19)]:
        raise InvalidRequest(f"{wrong[0]!r:.40} is not the id of a job")
    return [JobId(int(text)) for text in texts]
