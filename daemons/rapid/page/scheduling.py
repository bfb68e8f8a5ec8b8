"""Add and change schedules on the page: a form, a look at its next runs, and the change.

Theory. As for `daemons.rapid.page.submitting`: only what was shown is done. A form that is sent twice finds the
schedule that it has added.
"""

import datetime
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs
from starlette.responses import Response

from common.conditions import Condition
from common.errors import Conflict, GantryError, InvalidRequest, NotFound, PreconditionFailed
from common.opcodes.base import write_opcode
from common.opcodes.registry import parse_opcode
from common.queue.reruns import LABEL, OldJob, to_edit
from common.schedules.schedule import Missed, Overlap, Schedule
from common.schedules.times import LONGEST_SPAN_S, UTC, check_times, offset_of, read_words, zone_named
from common.system.inthread import in_thread
from common.webaccess.rights import Right
from common.words.times import duration
from common.words.typed import read_duration
from daemons.rapid.calls import Asked, Call
from daemons.rapid.page import jobforms
from daemons.rapid.page.jobforms import ReadJobs, Texts
from daemons.rapid.page.pages import Pages, shown
from daemons.rapid.page.submitting import CHANGED, TOLD_IN_FORM, with_file
from daemons.rapid.page.views.boards import DoneLine, FormField, ScheduleFormView
from daemons.rapid.page.views.frame import TextPart
from daemons.rapid.page.views.things import when_words
from daemons.rapid.page.visitors import Form, first
from daemons.rapid.refusals import status_of
from protocol.luxi.queue import AddSchedule, ChangeSchedule, ListSchedules, ScheduleRequest

# The form of a schedule: what its fields mean, when its runs would be, and how it is filled with one that is there.
#
# Theory. Its job is read as that of the form for submissions. A schedule is changed by what its fields say then; its
# job only if these fields were changed, so that who may change the times alone keeps the job as it is.
#
# Source: DESIGN section 16; `common.schedules.times`.


# next runs that a look tells
NEXT: Final = 5
_BY_PERIOD: Final = "by period"
_TIMES: Final = ("name", "cron", "every", "zone", "overlap", "missed", "deadline", "spread")
# of its job
JOB_FIELDS: Final = tuple(name for name in jobforms.FIELDS if name not in ("name", "after", "begin"))
FIELDS: Final = (*_TIMES, *JOB_FIELDS)
# begin of a message about a schedule -> the field of which it speaks
_SPOKEN_OF: Final = {
    "an interval has": "every",
    "the deadline of": "deadline",
    "the spread of": "spread",
    "no schedule can be named": "name",
    "there is a schedule": "name",
    "cron words": "cron",
    "unknown cron word": "cron",
}


@attrs.frozen
class ReadSchedule:
    """The schedule that a form wishes; or what is wrong with it."""

    wish: ScheduleRequest | None = None
    # field -> what is wrong with its text
    wrong: Mapping[str, str] = attrs.Factory(dict)
    # None: the job stays as it is
    read: ReadJobs | None = None
    # when its next runs would be, for people
    next: tuple[str, ...] = ()
    note: str = ""


def read_schedule(texts: Texts, there: Schedule | None, now: float) -> ReadSchedule:
    """Args: there: the schedule that is changed. now: seconds since the epoch."""
    wrong: dict[str, str] = {}
    name = texts["name"].strip() if there is None else there.name
    if not name:
        wrong["name"] = "a schedule needs a name, as in nightly"
    cron, every = texts["cron"].strip(), _seconds(texts, "every", wrong)
    if cron and every:
        wrong["every"] = "give either cron words or an interval, one of both"
    elif not cron and not every:
        wrong.setdefault("cron", "say when it runs: in cron words, 0 2 * * *, or by an interval")
    seed = "" if there is None else there.uuid
    for field, check in (("cron", lambda: cron and read_words(cron, seed)), ("zone", lambda: zone_named(_zone(texts)))):
        try:
            check()
        except InvalidRequest as error:
            wrong[field] = error.message
    overlap = _choice(texts, "overlap", [each.value for each in Overlap], wrong)
    wish = ScheduleRequest(
        name=name,
        cron=cron or None,
        # left out it would stay as it is
        zone=(_zone(texts) or UTC) if cron else None,
        every_s=every or None,
        overlap=None if overlap is None else Overlap(overlap),
        missed=_missed(texts, wrong),
        deadline_s=_seconds(texts, "deadline", wrong) or 0.0,
        spread_s=_seconds(texts, "spread", wrong) or 0.0,
    )
    read = None if there is not None and texts["was"] == texts.digest(JOB_FIELDS) else _job(texts, now, wrong)
    if wrong:
        return ReadSchedule(wrong=wrong, read=read)
    if read is not None:
        wish = attrs.evolve(wish, job=read.jobs[0].to_input(int(now * 1e9)))
    try:
        told, note = _next(_meant(wish, there, now), now, is_new=there is None)
    except InvalidRequest as error:
        return ReadSchedule(wrong={spoken_of(error.message): error.message}, read=read)
    return ReadSchedule(wish, {}, read, told, note)


def spoken_of(message: str) -> str:
    """The field of which a message about a schedule speaks; "": of none."""
    return next((field for begin, field in _SPOKEN_OF.items() if message.startswith(begin)), "")


def _zone(texts: Texts) -> str:
    return texts["zone"].strip()


def _choice(texts: Texts, name: str, words: Sequence[str], wrong: dict[str, str]) -> str | None:
    if not texts[name]:
        return None
    if texts[name] not in words:
        wrong[name] = f"'{texts[name]:.40}' is not one of {', '.join(words)}"
        return None
    return texts[name]


def _missed(texts: Texts, wrong: dict[str, str]) -> Missed | None:
    word = _choice(texts, "missed", [_BY_PERIOD, *(each.value for each in Missed)], wrong)
    return None if word in (None, _BY_PERIOD) else Missed(word)


def _seconds(texts: Texts, name: str, wrong: dict[str, str]) -> float | None:
    text = texts[name].strip()
    try:
        return read_duration(text) if text else None
    except InvalidRequest as error:
        wrong[name] = error.message
        return None


def _job(texts: Texts, now: float, wrong: dict[str, str]) -> ReadJobs:
    # of the fields that a schedule does not have nothing is read
    read = jobforms.read_jobs(Texts({**texts.values, "name": "", "after": "", "begin": ""}), now)
    wrong |= read.wrong
    if len(read.jobs) > 1:
        wrong["plan"] = f"a schedule has one job, and the plan holds {len(read.jobs)}"
    return read


def _meant(wish: ScheduleRequest, there: Schedule | None, now: float) -> Schedule:
    """The schedule as it would be, as far as its times count."""
    if there is None:
        fresh = Schedule(
            *(str(uuid.UUID(int=0)), wish.name, "", "", 0.0, (), Overlap.SKIP, Missed.SKIP, 0.0, 0.0, False, "", 0),
            created_at=float(int(now)),
            changed_at=now,
            settled_at=now,
        )
        return _timed(fresh, wish)
    return _timed(there, wish)


def _timed(schedule: Schedule, wish: ScheduleRequest) -> Schedule:
    return attrs.evolve(
        schedule,
        cron=wish.cron or "",
        every_s=wish.every_s or 0.0,
        zone=wish.zone or schedule.zone,
        deadline_s=wish.deadline_s or 0.0,
        spread_s=wish.spread_s or 0.0,
    )


def _next(schedule: Schedule, now: float, *, is_new: bool) -> tuple[tuple[str, ...], str]:
    """When its next runs are, and a note about them. Raises: InvalidRequest: its times are none."""
    times, zone = check_times(schedule), zone_named(schedule.zone)
    is_hashed = "H" in schedule.cron.upper().replace("THU", "").replace("MARCH", "")
    found: list[str] = []
    at: float | None = now
    # what is told is when runs begin, which may be later than their instants by the words
    late = 0.0 if is_new else offset_of(schedule)
    while at is not None and len(found) < NEXT and (at := times.next_after(at)) is not None:
        found.append(_instant(at + late, zone, now))
    notes = []
    if is_new and is_hashed and schedule.cron and not schedule.cron.startswith("@"):
        notes.append("H stands for a time that is chosen when the schedule is added, so these may be others.")
    if is_new and schedule.spread_s:
        notes.append(f"Each begins up to {duration(schedule.spread_s)} later, always by the same time.")
    if schedule.is_paused:
        notes.append("It is paused, and makes no runs before it is resumed.")
    return tuple(found), " ".join(notes)


def _instant(at: float, zone: datetime.tzinfo, now: float) -> str:
    local = datetime.datetime.fromtimestamp(at, zone)
    return f"{local:%a %Y-%m-%d %H:%M:%S %Z}, in {duration(max(0.0, at - now))}"


# What stands in the form.


def time_fields(texts: Texts, wrong: Mapping[str, str]) -> tuple[FormField, ...]:
    def field(name: str, title: str, example: str = "", options: Sequence[str] = ()) -> FormField:
        value = texts[name] if not options or texts[name] in options else options[0]
        pairs = tuple((each, each) for each in options)
        return FormField(name, title, value, wrong.get(name, ""), example, options=pairs)

    return (
        field("cron", "when, in the five words of cron, or @daily; H spreads", "0 2 * * *"),
        field("every", "or again after", "90m"),
        field("zone", "time zone of the words (empty: UTC)", "Europe/Athens"),
        field("overlap", "if the job before has not ended", options=[each.value for each in Overlap]),
        field("missed", "runs that were missed", options=[_BY_PERIOD, *(each.value for each in Missed)]),
        field("deadline", "made up for only within", "1h"),
        field("spread", "spread the starts over", "10m"),
    )


def filled(schedule: Schedule) -> Texts:
    """The form of a schedule; `was` stands for its job."""
    texts = {
        "name": schedule.name,
        "cron": schedule.cron,
        "every": "" if schedule.cron else f"{schedule.every_s:.0f}",
        "zone": schedule.zone if schedule.cron else "",
        "overlap": schedule.overlap.value,
        "missed": schedule.missed.value,
        "deadline": _span(schedule.deadline_s),
        "spread": _span(schedule.spread_s),
        **_job_texts(schedule.job),
    }
    return Texts({**texts, "was": Texts(texts).digest(JOB_FIELDS)})


def _span(seconds: float) -> str:
    return jobforms.seconds_text(seconds) if 0 < seconds <= LONGEST_SPAN_S else ""


def _job_texts(ops: Sequence[Mapping[str, object]]) -> Mapping[str, str]:
    """Its job as fields; those of a command, empty, if it is told only to others or cannot be edited."""
    try:
        # they are kept as they were given, not in the normal form of jobs
        normal = [write_opcode(parse_opcode(op)) for op in ops]
        terms, opcodes = to_edit(OldJob(0, "success", normal, ()), keeps_reasons=True)
    except GantryError:
        return {"kind": "command", "priority": "normal"}
    if not opcodes:
        return {"kind": "command", "priority": "normal"}
    labels = {key: value for key, value in terms.labels.items() if key != LABEL}
    found = jobforms.filled(attrs.evolve(terms, name="", labels=labels), opcodes)
    return {name: text for name, text in found.values.items() if name in JOB_FIELDS}


def is_as_wished(schedule: Schedule, wish: ScheduleRequest) -> bool:
    """Whether a schedule is what the wish makes: a form that was sent twice finds its own."""
    times = (wish.cron or "", wish.every_s or 0.0)
    if (schedule.cron, schedule.every_s) != times or schedule.is_paused or wish.job is None:
        return False
    return _job_texts(schedule.job) == _job_texts(wish.job)


# The requests: the form, the look at its runs, the change.


_PATH: Final = "/ui/schedules"
_CHANGED_MEANWHILE: Final = (
    "Somebody has changed the schedule since this form was opened, so nothing was changed. Open it again to see what "
    "it is now; your texts are still here."
)


@attrs.frozen
class Scheduling:
    _pages: Pages

    def rows(self) -> Iterator[Call]:
        own = Right.JOBS_SUBMIT
        yield shown(f"{_PATH}/edit", self._show, "The form of a schedule.", own)
        yield self._pages.form(f"{_PATH}/edit", self._save, "Look at a schedule, or save it.", own)

    async def _show(self, asked: Asked) -> Response:
        """The form, empty, or filled with a schedule. Raises: NotFound."""
        query = asked.http.query_params
        name, kind = query.get("name", ""), "plan" if query.get("kind") == "plan" else "command"
        if not name:
            return await self._form(asked, Texts({"kind": kind}), None)
        there = await _found(asked, name)
        texts = filled(there)
        if query.get("kind"):
            texts = Texts({**texts.values, "kind": kind})
        return await self._form(asked, texts, there)

    async def _save(self, asked: Asked, form: Form) -> Response:
        """Look at the form, or add or change the schedule. Raises: NotFound."""
        texts = with_file(Texts.of(form))
        there = await _found(asked, texts["of"]) if texts["of"] else None
        read = await in_thread(read_schedule, texts, there, time.time())
        if read.wish is None:
            return await self._form(asked, texts, there, read, status=400)
        if first(form, "sure") != "yes":
            return await self._form(asked, texts, there, read)
        if texts["seen"] != texts.digest(FIELDS):
            return await self._form(asked, texts, there, read, wrong=CHANGED)
        return await self._send(asked, texts, there, read, read.wish)

    async def _send(
        self, asked: Asked, texts: Texts, there: Schedule | None, read: ReadSchedule, wish: ScheduleRequest
    ) -> Response:
        try:
            if there is None:
                view = await asked.daemons.luxid(AddSchedule(wish))
            else:
                condition = Condition(tags=(texts["tag"],)) if texts["tag"] else None
                view = await asked.daemons.luxid(ChangeSchedule(wish, condition))
        except GantryError as error:
            if error.code == PreconditionFailed.code:
                return await self._form(asked, texts, there, read, wrong=_CHANGED_MEANWHILE, status=412)
            if status_of(error) not in TOLD_IN_FORM:
                raise
            if there is None and error.code == Conflict.code and await _is_there(asked, wish):
                told = f"this form was sent before: there is the schedule '{wish.name}'"
                return await self._done(asked, "Added", told)
            return await self._refused(asked, texts, there, read, error)
        told = f"'{view.schedule.name}' makes runs: {when_words(view.schedule)}"
        return await self._done(asked, "Added" if there is None else "Changed", told)

    async def _done(self, asked: Asked, title: str, told: str) -> Response:
        return await self._pages.done(asked, title, [DoneLine((TextPart(told),))], _PATH)

    async def _refused(
        self, asked: Asked, texts: Texts, there: Schedule | None, read: ReadSchedule, error: GantryError
    ) -> Response:
        field = spoken_of(error.message)
        if field:
            read = ReadSchedule(wrong={field: error.message}, read=read.read)
        return await self._form(
            asked, texts, there, read, wrong="" if field else error.message, status=status_of(error)
        )

    async def _form(
        self,
        asked: Asked,
        texts: Texts,
        there: Schedule | None,
        read: ReadSchedule | None = None,
        *,
        wrong: str = "",
        status: int = 200,
    ) -> Response:
        marks = {} if read is None else read.wrong
        is_looked_at = read is not None and read.wish is not None
        jobs = None if read is None or not is_looked_at else read.read
        view = ScheduleFormView(
            "Add a schedule" if there is None else f"Change schedule {there.name}",
            FormField("name", "name of the schedule", texts["name"], marks.get("name", ""), "nightly"),
            "" if there is None else there.name,
            texts.is_plan,
            time_fields(texts, marks),
            jobforms.command_fields(texts, {} if texts.is_plan else marks, is_once=False),
            jobforms.plan_field(texts, marks if texts.is_plan else {}),
            texts["plan.filename"],
            texts["was"],
            texts["tag"] or ("" if there is None else there.tag),
            wrong,
            is_looked_at,
            () if jobs is None else jobs.looks(),
            read.next if read is not None else (),
            read.note if read is not None else "",
            texts.digest(FIELDS) if is_looked_at else "",
        )
        return await self._pages.page(asked, "schedule", view.title, view, status)


async def _found(asked: Asked, name: str) -> Schedule:
    """Raises: NotFound."""
    for view in await asked.daemons.luxid(ListSchedules(0, (name,))):
        return view.schedule
    raise NotFound(f"there is no schedule {name!r:.60}")


async def _is_there(asked: Asked, wish: ScheduleRequest) -> bool:
    views = await asked.daemons.luxid(ListSchedules(0, (wish.name,)))
    return any(is_as_wished(view.schedule, wish) for view in views)
