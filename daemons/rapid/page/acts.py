"""Changes from the page: each is shown first, with all that it hits, and then done."""

import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import attrs
from starlette.responses import Response

from common.errors import InvalidRequest, NotFound
from common.ids import JobId
from common.objects.filter import asked_rule
from common.query.qlang import Expression
from common.queue.jobs import FINAL_NAMES, SUBMIT_PRIORITIES
from common.queue.reasons import ReasonEntry
from common.words.fields import JobRow
from common.words.filters.jobfilter import all_of, job_filter
from common.words.filters.rulefilter import rule_predicates
from daemons.rapid.calls import Asked
from daemons.rapid.page.login import form_of
from daemons.rapid.page.pages import Pages, login_of
from daemons.rapid.page.reading import UNENDED, filter_rules, jobs_by_id, page_of_jobs
from daemons.rapid.page.views.boards import Confirmation, DoneLine, DoneView, OptionsView, Words
from daemons.rapid.page.views.frame import TextPart, linked, rule_href
from daemons.rapid.page.views.jobview import ROW_FIELDS, JobLine, job_lines
from daemons.rapid.page.views.things import when_words
from daemons.rapid.page.visitors import Form, first, own_path
from protocol.luxi import jobs as luxi
from protocol.luxi.queue import (
    DeleteFilter,
    ListSchedules,
    PauseSchedule,
    ReplaceFilter,
    RunSchedule,
    SetDrainFlag,
    TryFilterRule,
)

# Cancel, kill, hold and release jobs, and change their priority.
#
# Theory. The first form names jobs, or a filter; the reply lists what would be hit. The second form names exactly these
# jobs: what comes between is not touched.


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
        options = OptionsView("priority", "to", tuple((name, name) for name in SUBMIT_PRIORITIES))
        change = _changing(asked, luxi.JobChange(priority=priority))
        return await self._ask_or_do(asked, "priority", "changed", change, options)

    async def hold(self, asked: Asked) -> Response:
        change = _changing(asked, luxi.JobChange(hold=first(form_of(asked), "why").strip()))
        return await self._ask_or_do(asked, "hold", "held", change, Words("why", "because", "the mirror is down"))

    async def release(self, asked: Asked) -> Response:
        return await self._ask_or_do(asked, "release", "released", _changing(asked, luxi.JobChange(release=True)))

    async def _ask_or_do(
        self, asked: Asked, act: str, did: str, change: Change, *fields: OptionsView | Words
    ) -> Response:
        """Raises: RequestRefused: a forged form. InvalidRequest: no job is named, or too many."""
        form = form_of(asked)
        self._pages.visitors.check_form(asked.http, form)
        if first(form, "sure") == "yes":
            return await self._do(asked, form, did, change)
        return await self._ask(asked, form, act, fields)

    async def _ask(self, asked: Asked, form: Form, act: str, fields: Sequence[OptionsView | Words]) -> Response:
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
            fields=tuple(field for field in fields if isinstance(field, OptionsView)),
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
        done = DoneView(f"{did.capitalize()}: {count} of {len(told)}", lines, own_path(first(form, "back"), "/ui/jobs"))
        return await self._pages.page(asked, "done", done.title, done)


def _changing(asked: Asked, change: luxi.JobChange) -> Change:
    return lambda ids: asked.daemons.luxid(luxi.ChangeJobs(tuple(ids), change))


def _left_out(count: int) -> str:
    return f"{count} of the chosen jobs {'has' if count == 1 else 'have'} ended already." if count else ""


async def _chosen(asked: Asked, form: Form) -> Sequence[JobRow]:
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


# Pause jobs by a filter rule, delete rules, drain and open the queue.


_FILTERS = "/ui/filters"


@attrs.frozen
class QueueActs:
    _pages: Pages

    async def pause(self, asked: Asked) -> Response:
        """Make jobs wait. Raises: RequestRefused: a forged form. InvalidRequest: the filter cannot be read."""
        form = self._checked(asked)
        where, reason = first(form, "where").strip(), first(form, "reason").strip()
        trail = (ReasonEntry("gnt:user", reason, time.time_ns()),) if reason else ()
        rule = asked_rule("PAUSE", rule_predicates(where) if where else (), reason_trail=trail)
        if first(form, "sure") != "yes":
            hit = await asked.daemons.luxid(TryFilterRule.of(rule))
            return await self._ask_pause(asked, where, reason, hit)
        uuid = await asked.daemons.luxid(ReplaceFilter.of(rule))
        lines = (
            TextPart("rule "),
            TextPart(uuid, rule_href(uuid)),
            TextPart(" makes such jobs wait until it is deleted"),
        )
        return await self._done(asked, "Paused", lines)

    async def _ask_pause(self, asked: Asked, where: str, reason: str, hit: Sequence[JobId]) -> Response:
        which = f"jobs with {where}" if where else "all jobs"
        now = f"{len(hit)} of the jobs that wait now would wait on; later ones, too." if hit else ""
        view = Confirmation(
            f"Pause {which}?",
            await _lines(asked, hit),
            max(0, len(hit) - LISTED),
            "/ui/filters/pause",
            (("where", where), ("reason", reason)),
            "pause them",
            _FILTERS,
            told=now,
            none="No job that waits now matches; later ones may.",
            is_grave=not where,
        )
        return await self._pages.page(asked, "confirm", view.question, view)

    async def delete(self, asked: Asked) -> Response:
        """Delete a rule. Raises: RequestRefused: a forged form. NotFound: there is no such rule."""
        form = self._checked(asked)
        uuid = first(form, "uuid")
        if first(form, "sure") == "yes":
            await asked.daemons.luxid(DeleteFilter(uuid))
            return await self._done(asked, "Deleted", (TextPart(f"rule {uuid} is no more"),))
        rule = next((rule for rule in await filter_rules(asked.daemons) if rule.uuid == uuid), None)
        if rule is None:
            raise NotFound(f"there is no filter rule {uuid!r:.60}")
        hit = await asked.daemons.luxid(TryFilterRule.of(rule))
        view = Confirmation(
            f"Delete rule {uuid}?",
            await _lines(asked, hit),
            max(0, len(hit) - LISTED),
            "/ui/filters/delete",
            (("uuid", uuid),),
            "delete the rule",
            _FILTERS,
            told=f"It applies to {len(hit)} of the jobs that wait now." if hit else "",
            none="It applies to none of the jobs that wait now.",
            is_grave=True,
        )
        return await self._pages.page(asked, "confirm", view.question, view)

    async def drain(self, asked: Asked) -> Response:
        """Drain or open the queue. Raises: RequestRefused: a forged form."""
        form = self._checked(asked)
        is_draining = first(form, "drain") == "yes"
        if first(form, "sure") == "yes":
            await asked.daemons.luxid(SetDrainFlag(is_draining))
            told = "the queue takes no more jobs" if is_draining else "the queue takes jobs"
            return await self._done(asked, "Drained" if is_draining else "Opened", (TextPart(told),))
        view = Confirmation(
            "Drain the queue?" if is_draining else "Open the queue?",
            None,
            0,
            "/ui/queue",
            (("drain", "yes" if is_draining else "no"),),
            "drain" if is_draining else "open",
            _FILTERS,
            told="It would take no more jobs; those that it has go on." if is_draining else "It would take jobs again.",
            is_grave=is_draining,
        )
        return await self._pages.page(asked, "confirm", view.question, view)

    def _checked(self, asked: Asked) -> Form:
        form = form_of(asked)
        self._pages.visitors.check_form(asked.http, form)
        return form

    async def _done(self, asked: Asked, title: str, pieces: tuple[TextPart, ...]) -> Response:
        return await self._pages.page(asked, "done", title, DoneView(title, (DoneLine(pieces),), _FILTERS))


async def _lines(asked: Asked, job_ids: Sequence[JobId]) -> tuple[JobLine, ...]:
    rows = await jobs_by_id(asked.daemons, job_ids[:LISTED], ROW_FIELDS)
    return job_lines(rows, {}, {}, time.time(), login_of)


# Pause schedules, let them go on, and run them by hand.


_SCHEDULES = "/ui/schedules"


@attrs.frozen
class _Wish:
    path: str
    question: str
    told: str
    do: str
    title: str


_PAUSE = _Wish("pause", "Pause", "It would make no runs; its jobs go on.", "pause it", "Paused")
_RESUME = _Wish(
    "resume", "Resume", "It would make runs again; missed ones are not made up for.", "resume it", "Resumed"
)
_RUN = _Wish("run", "Run", "Its job would be submitted now; its times stay as they are.", "run it now", "Submitted")


@attrs.frozen
class ScheduleActs:
    _pages: Pages

    async def pause(self, asked: Asked) -> Response:
        """Raises: RequestRefused: a forged form. NotFound: there is no such schedule."""

        async def do(form: Form) -> tuple[TextPart, ...]:
            await asked.daemons.luxid(PauseSchedule(first(form, "name"), True))
            return (TextPart(f"'{first(form, 'name')}' makes no runs until it is resumed"),)

        return await self._ask_or_do(asked, _PAUSE, do)

    async def resume(self, asked: Asked) -> Response:
        """Raises: as `pause`."""

        async def do(form: Form) -> tuple[TextPart, ...]:
            view = await asked.daemons.luxid(PauseSchedule(first(form, "name"), False))
            return (TextPart(f"'{view.schedule.name}' makes runs again: {when_words(view.schedule)}"),)

        return await self._ask_or_do(asked, _RESUME, do)

    async def run(self, asked: Asked) -> Response:
        """Raises: as `pause`; else as a submission."""

        async def do(form: Form) -> tuple[TextPart, ...]:
            # a form that is sent twice is one run
            job_id = await asked.daemons.luxid(RunSchedule(first(form, "name"), first(form, "key")))
            return linked(f"job {job_id} is a run of '{first(form, 'name')}'")

        return await self._ask_or_do(asked, _RUN, do)

    async def _ask_or_do(
        self, asked: Asked, wish: _Wish, do: Callable[[Form], Awaitable[tuple[TextPart, ...]]]
    ) -> Response:
        form = form_of(asked)
        self._pages.visitors.check_form(asked.http, form)
        name = first(form, "name")
        if first(form, "sure") == "yes":
            done = DoneView(wish.title, (DoneLine(await do(form)),), _SCHEDULES)
            return await self._pages.page(asked, "done", done.title, done)
        if not await asked.daemons.luxid(ListSchedules(0, (name,))):
            raise NotFound(f"there is no schedule {name!r:.60}")
        view = Confirmation(
            f"{wish.question} schedule {name}?",
            None,
            0,
            f"{_SCHEDULES}/{wish.path}",
            (("name", name), ("key", str(uuid.uuid4()))),
            wish.do,
            _SCHEDULES,
            told=wish.told,
        )
        return await self._pages.page(asked, "confirm", view.question, view)
