"""Changes from the page: each is shown first, with all that it hits, and then done."""

import re
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import attrs
from starlette.responses import Response

from common.errors import Conflict, Denied, InvalidRequest, NotFound
from common.ids import JobId, read_number
from common.objects.filter import asked_rule
from common.query.qlang import Expression
from common.queue.jobs import FINAL_NAMES, SUBMIT_PRIORITIES
from common.queue.reasons import ReasonEntry
from common.queue.reruns import MOST_DEPENDENTS, OldJob, Successor, chosen
from common.webaccess.rights import Right
from common.words.fields import JobRow
from common.words.filters.jobfilter import all_of, search_filter
from common.words.filters.rulefilter import rule_predicates
from daemons.rapid.calls import Asked, Call, Daemons
from daemons.rapid.page.pages import Pages, login_of
from daemons.rapid.page.reading import filter_rules
from daemons.rapid.page.views.boards import Confirmation, DoneLine, FormField
from daemons.rapid.page.views.frame import TextPart, linked, rule_href
from daemons.rapid.page.views.jobview import ROW_FIELDS, JobLine, job_lines
from daemons.rapid.page.views.things import when_words
from daemons.rapid.page.visitors import Form, first, own_path
from daemons.rapid.resources.jobchanges import (
    Change,
    and_dependents,
    archive,
    cancelling,
    changing,
    made_again,
    old_jobs,
    one_by_one,
)
from daemons.rapid.resources.joblists import ENDED, UNENDED, jobs_by_id, page_of_jobs
from protocol.luxi import jobs as luxi
from protocol.luxi.queue import (
    DeleteFilter,
    ListSchedules,
    PauseSchedule,
    RemoveScheduleOf,
    ReplaceFilter,
    RunSchedule,
    SetDrainFlag,
    TryFilterRule,
)

# Cancel, kill, hold and release jobs, change their priority, let them run again, and archive them.
#
# Theory. The first form names jobs, or a filter; the reply lists what would be hit. The second form names exactly these
# jobs: what comes between is not touched. What can be done to which job is luxid's decision, and what a job that runs
# again looks like that of `common.queue.reruns`, both as for /3.


# jobs that one form may hit, and those of them that are listed
MOST: Final = 1000
LISTED: Final = 200
# ids that a sentence tells
_TOLD: Final = 5


@attrs.frozen
class PageAction:
    """What is done to jobs."""

    # last part of its address
    name: str
    did: str
    # one sentence for the table of calls
    summary: str
    # any one of them is enough
    rights: tuple[Right, ...]
    # the change that a form asks for; None: the jobs run again
    change: Callable[[Form], Change] | None = None
    fields: tuple[FormField, ...] = ()
    # with "{}" for the jobs; "": its name says it
    said: str = ""
    # text of its button; "": its name
    text: str = ""
    is_grave: bool = False
    # whether it is for jobs that have ended; else for unfinished ones
    is_for_ended: bool = False
    # whether archived jobs are left out
    is_for_live: bool = False
    # whether it is done to those that depend on the jobs, too
    has_dependents: bool = False
    # whether jobs begin again with the opcode that failed
    from_failed: bool = False
    # what it comes to
    told: str = ""

    @property
    def href(self) -> str:
        return f"/ui/jobs/{self.name}"

    @property
    def button(self) -> str:
        return self.text or self.name

    @property
    def words(self) -> str:
        """With "{}" for the jobs."""
        return self.said or f"{self.name} {{}}"

    @property
    def verb(self) -> str:
        return " ".join(self.words.format("").split())

    @property
    def suited(self) -> str:
        """How the jobs are to which it applies, after the word *None*."""
        if not self.is_for_ended:
            return "is unfinished"
        return "has ended and is not archived yet" if self.is_for_live else "has ended"


_TO_CANCEL: Final = (Right.JOBS_CANCEL, Right.JOBS_SUBMIT)
_TO_CHANGE: Final = (Right.JOBS_PRIORITY, Right.JOBS_SUBMIT)
RERUN: Final = PageAction(
    "rerun",
    "run again",
    "Run ended jobs again.",
    (Right.JOBS_SUBMIT,),
    said="run {} again",
    text="run again",
    is_for_ended=True,
    told="New jobs with the same opcodes would be submitted; the old ones stay as they are.",
)
RERUN_FROM_FAILED: Final = attrs.evolve(
    RERUN,
    name="rerun-from-failed",
    said="run {} again from the failed opcode on",
    text="run again from the failed opcode",
    summary="Run failed jobs again from the failed opcode on.",
    told="New jobs with the opcodes from the failed one on would be submitted; the old ones stay as they are.",
    from_failed=True,
)
# in the order of the buttons
ACTIONS: Final = (
    PageAction("cancel", "canceled", "Cancel jobs.", _TO_CANCEL, lambda _: cancelling(), is_grave=True),
    PageAction("kill", "killed", "Kill jobs.", _TO_CANCEL, lambda _: cancelling(kill=True), is_grave=True),
    PageAction(
        "priority",
        "changed",
        "Change priorities.",
        _TO_CHANGE,
        lambda form: changing(luxi.TermsChange(priority=SUBMIT_PRIORITIES.get(first(form, "priority"), 0))),
        (FormField("priority", "to", options=tuple((name, name) for name in SUBMIT_PRIORITIES)),),
        said="change the priority of {}",
    ),
    PageAction(
        "hold",
        "held",
        "Hold jobs.",
        _TO_CHANGE,
        lambda form: changing(luxi.TermsChange(hold=first(form, "why").strip())),
        (FormField("why", "because", example="the mirror is down"),),
    ),
    PageAction("release", "released", "Release jobs.", _TO_CHANGE, lambda _: changing(luxi.TermsChange(release=True))),
    RERUN,
    attrs.evolve(
        RERUN,
        name="rerun-dependents",
        text="run again with dependents",
        summary="Run ended jobs and their dependents again.",
        told="These are the chosen jobs and those that depend on them, directly or through others, at most "
        f"{MOST_DEPENDENTS:,}. New jobs with the same opcodes would be submitted, which depend on each other as these "
        "do; the old ones stay as they are.",
        has_dependents=True,
    ),
    RERUN_FROM_FAILED,
    PageAction(
        "archive",
        "archived",
        "Archive ended jobs.",
        (Right.JOBS_ARCHIVE, Right.JOBS_SUBMIT),
        lambda _: one_by_one(archive),
        is_for_ended=True,
        is_for_live=True,
        told="Archived jobs leave the list of jobs; their own pages stay.",
    ),
)


@attrs.frozen
class JobActs:
    _pages: Pages

    def rows(self) -> Iterator[Call]:
        for action in ACTIONS:
            act = self._change if action.change is not None else self._rerun
            yield self._pages.form(action.href, partial(act, action), action.summary, *action.rights)

    async def _change(self, action: PageAction, asked: Asked, form: Form) -> Response:
        """Raises: InvalidRequest: no job is named, or too many."""
        if first(form, "sure") == "yes" and action.change is not None:
            job_ids = _ids(form)
            told = await action.change(form)(asked.daemons, job_ids) if job_ids else ()
            return await self._done(asked, form, action, dict(zip(job_ids, told, strict=True)))

        view = _confirmation(form, action, await _choice_of(asked, form, action))
        return await self._pages.confirm(asked, attrs.evolve(view, fields=action.fields))

    async def _rerun(self, action: PageAction, asked: Asked, form: Form) -> Response:
        """Let ended jobs run again, all of them or none.

        Raises: as the other acts. NotFound, Conflict, InvalidRequest, Denied: one of them cannot run again.
        """
        if first(form, "sure") == "yes":
            return await self._run_again(asked, form, action)

        choice = await _choice_of(asked, form, action)
        ways = await _rerun_ways(asked.daemons, [JobId(row["id"]) for row in choice.hit], action)
        alone = "No other job depends on these." if action.has_dependents and choice.hit and not choice.added else ""
        view = _confirmation(form, action, choice)
        view = attrs.evolve(
            view,
            # a form that is sent twice lets the jobs run again once
            values=(*view.values, ("key", str(uuid.uuid4()))),
            told=_sentences(view.told, alone, *ways.wrong, *ways.begun),
            do=action.verb if ways.offered else view.do,
            fields=(FormField("which", "of these", options=ways.offered),) if ways.offered else (),
            can_do=view.can_do and (bool(ways.offered) or not ways.wrong),
        )
        return await self._pages.confirm(asked, view)

    async def _run_again(self, asked: Asked, form: Form, action: PageAction) -> Response:
        way = first(form, "which")
        old = chosen(await old_jobs(asked.daemons, _ids(form)), failed_only=way == _FAILED)
        made = await made_again(asked.daemons, old, from_failed=action.from_failed)
        key = first(form, "key") or str(uuid.uuid4())
        if not made:
            return await self._done(asked, form, action, {})

        # under one key only the same jobs can be submitted
        call = luxi.SubmitOnce(tuple(tuple(each.ops) for each in made), f"{key} {way}")
        submitted = await asked.daemons.luxid(call)
        told = {JobId(each.of): _ran(each, to) for each, to in zip(made, submitted.answers, strict=True)}
        note = "this form was sent before: these are the jobs of then" if submitted.is_earlier else ""
        return await self._done(asked, form, action, told, note)

    async def _done(
        self, asked: Asked, form: Form, action: PageAction, told: Mapping[JobId, luxi.ChangeResult], note: str = ""
    ) -> Response:
        count = sum(each.is_done for each in told.values())
        lines = [DoneLine(linked(_named(job_id, each.message)), not each.is_done) for job_id, each in told.items()]
        noted = [DoneLine((TextPart(note),))] if note else []
        title = f"{action.did.capitalize()}: {count} of {len(told)}"
        return await self._pages.done(asked, title, noted + lines, _back(form))


def _named(job_id: JobId, text: str) -> str:
    """The sentence, which tells of which job it is."""
    return text if re.search(rf"\bjob {job_id}\b", text) else f"job {job_id}: {text}"


def _back(form: Form) -> str:
    return own_path(first(form, "back"), "/ui/jobs")


@attrs.frozen
class _Choice:
    """The jobs of a form."""

    # those to which the action applies
    hit: Sequence[JobRow]
    # sentences about the others
    left_out: str
    is_empty: bool
    # number of jobs that are hit only because they depend on others
    added: int = 0


def _confirmation(form: Form, action: PageAction, choice: _Choice) -> Confirmation:
    hit = choice.hit
    what = f"{len(hit)} job{'' if len(hit) == 1 else 's'}"
    return Confirmation(
        f"{action.words.format(what).capitalize()}?" if hit else f"No job to {action.verb}",
        job_lines(hit[:LISTED], {}, {}, time.time(), login_of),
        max(0, len(hit) - LISTED),
        action.href,
        (("back", _back(form)), *(("job", str(row["id"])) for row in hit)),
        action.words.format(what),
        _back(form),
        told=_sentences(choice.left_out, action.told if hit else ""),
        none="Choose jobs first, by their boxes." if choice.is_empty else f"None of these jobs {action.suited}.",
        is_grave=action.is_grave,
        can_do=bool(hit),
    )


def _sentences(*each: str) -> str:
    return " ".join(filter(None, each))


async def _choice_of(asked: Asked, form: Form, action: PageAction) -> _Choice:
    """The jobs of a form: those that it names, or those of its filter to which the action applies."""
    is_named = first(form, "every") != "yes"
    job_ids = _ids(form) if is_named else await _found(asked, first(form, "where").strip(), action)
    count = len(job_ids)
    if action.has_dependents:
        job_ids = await and_dependents(asked.daemons, job_ids)
        if len(job_ids) > MOST:
            raise InvalidRequest(
                f"{len(job_ids)} jobs would be hit with the dependents, and one form takes at most {MOST}; "
                "choose fewer, or use gnt-job rerun --with-dependents"
            )
    rows = await jobs_by_id(asked.daemons, job_ids, (*ROW_FIELDS, "archived"))
    there, hit, unsuited, archived = {row["id"] for row in rows}, list[JobRow](), list[int](), list[int]()
    for row in rows:
        if (row["status"] in FINAL_NAMES) != action.is_for_ended:
            unsuited.append(row["id"])
        elif action.is_for_live and row["archived"]:
            archived.append(row["id"])
        else:
            hit.append(row)
    state = ("has not ended", "have not ended") if action.is_for_ended else ("has ended already", "have ended already")
    left_out = _sentences(
        _left_out(unsuited, *state),
        _left_out(archived, "is archived already", "are archived already"),
        _left_out([job_id for job_id in job_ids if job_id not in there], "does not exist", "do not exist"),
    )
    return _Choice(hit, left_out, is_empty=is_named and not job_ids, added=len(job_ids) - count)


def _left_out(job_ids: Sequence[int], one: str, many: str) -> str:
    if not job_ids:
        return ""
    more = f" and {len(job_ids) - _TOLD} more" if len(job_ids) > _TOLD else ""
    named = ", ".join(map(str, job_ids[:_TOLD]))
    return f"{len(job_ids)} of the chosen jobs {one if len(job_ids) == 1 else many}: {named}{more}."


async def _found(asked: Asked, where: str, action: PageAction) -> list[JobId]:
    """Raises: InvalidRequest: more jobs than one form takes, or the filter cannot be read."""
    suited = ENDED if action.is_for_ended else UNENDED
    parts = [suited, search_filter(where, time.time(), None)] if where else [suited]
    rows = await page_of_jobs(asked.daemons, ("id", "status"), Expression.from_wire(all_of(parts)), limit=MOST + 1)
    if len(rows) > MOST:
        raise InvalidRequest(f"more than {MOST} jobs would be hit, and one form takes no more; narrow the filter")
    return [JobId(row["id"]) for row in rows]


def _ids(form: Form) -> list[JobId]:
    """Raises: InvalidRequest: a value is no id, or there are too many."""
    texts = list(dict.fromkeys(form.get("job", ())))
    if len(texts) > MOST:
        raise InvalidRequest(f"{len(texts)} jobs are chosen, and one form takes at most {MOST}")
    return [_id(text) for text in texts]


def _id(text: str) -> JobId:
    if (number := read_number(text)) is None:
        raise InvalidRequest(f"{text!r:.40} is not the id of a job")
    return JobId(number)


# which of the jobs run again
_ALL: Final = "all"
_FAILED: Final = "failed"


@attrs.frozen
class _Ways:
    """How jobs can run again."""

    # which of them together, and in words; empty: there is no choice
    offered: tuple[tuple[str, str], ...]
    # sentences: why some cannot, and with which opcode others begin
    wrong: tuple[str, ...]
    begun: tuple[str, ...]


async def _rerun_ways(daemons: Daemons, job_ids: Sequence[JobId], action: PageAction) -> _Ways:
    old = await old_jobs(daemons, job_ids)
    every, failed = chosen(old, failed_only=False), chosen(old, failed_only=True)
    ways = [(_ALL, f"all {len(every)}", every)]
    if 0 < len(failed) < len(every):
        ways.append((_FAILED, f"the {len(failed)} that did not succeed", failed))
    wrong, begun, offered = dict[str, None](), dict[str, None](), list[tuple[str, str]]()
    for way, text, jobs in ways:
        try:
            made = await made_again(daemons, jobs, from_failed=action.from_failed)
        except (Conflict, Denied, InvalidRequest) as error:
            wrong[f"{error.message[:1].upper()}{error.message[1:]}."] = None
        else:
            offered.append((way, text))
            begun |= dict.fromkeys(_beginnings(jobs, made))
    return _Ways(tuple(offered if len(ways) > 1 else ()), tuple(wrong), tuple(begun))


def _beginnings(jobs: Sequence[OldJob], made: Sequence[Successor]) -> list[str]:
    """With which opcode jobs begin again that do not begin with their first."""
    later = [(job, each.left_out) for job, each in zip(jobs, made, strict=True) if each.left_out]
    told = [
        f"Job {job.job_id} begins again with its opcode {left_out + 1} of {len(job.ops)}." for job, left_out in later
    ]
    return told[:_TOLD] + ([f"So do {len(told) - _TOLD} more, each with its own."] if len(told) > _TOLD else [])


def _ran(made: Successor, answer: luxi.SubmitAnswer) -> luxi.ChangeResult:
    if isinstance(answer, luxi.Refused):
        return luxi.ChangeResult(False, answer.message)
    begin = f" from its opcode {made.left_out + 1} on" if made.left_out else ""
    return luxi.ChangeResult(True, f"job {made.of} runs again{begin} as job {answer.job_id}")


# Pause jobs by a filter rule, delete rules, drain and open the queue.

_FILTERS = "/ui/filters"


@attrs.frozen
class QueueActs:
    _pages: Pages

    def rows(self) -> Iterator[Call]:
        form = self._pages.form
        yield form(f"{_FILTERS}/pause", self._pause, "Pause jobs.", Right.FILTERS_WRITE)
        yield form(f"{_FILTERS}/delete", self._delete, "Delete a rule.", Right.FILTERS_WRITE)
        yield form("/ui/queue", self._drain, "Drain or open the queue.", Right.QUEUE_WRITE)

    async def _pause(self, asked: Asked, form: Form) -> Response:
        """Make jobs wait. Raises: InvalidRequest: the filter cannot be read."""
        where, reason = first(form, "where").strip(), first(form, "reason").strip()
        trail = (ReasonEntry("gnt:user", reason, time.time_ns()),) if reason else ()
        rule = asked_rule("PAUSE", rule_predicates(where) if where else (), reason_trail=trail)
        if first(form, "sure") == "yes":
            uuid = await asked.daemons.luxid(ReplaceFilter.of(rule))
            told = (TextPart("rule "), TextPart(uuid, rule_href(uuid)))
            return await self._done(asked, "Paused", *told, TextPart(" makes such jobs wait until it is deleted"))

        hit = await asked.daemons.luxid(TryFilterRule.of(rule))
        view = Confirmation(
            f"Pause {f'jobs with {where}' if where else 'all jobs'}?",
            await _lines(asked, hit),
            max(0, len(hit) - LISTED),
            f"{_FILTERS}/pause",
            (("where", where), ("reason", reason)),
            "pause them",
            _FILTERS,
            told=f"{len(hit)} of the jobs that wait now would wait on; later ones, too." if hit else "",
            none="No job that waits now matches; later ones may.",
            is_grave=not where,
        )
        return await self._pages.confirm(asked, view)

    async def _delete(self, asked: Asked, form: Form) -> Response:
        """Delete a rule. Raises: NotFound: there is no such rule."""
        uuid = first(form, "uuid")
        if first(form, "sure") == "yes":
            await asked.daemons.luxid(DeleteFilter(uuid))
            return await self._done(asked, "Deleted", TextPart(f"rule {uuid} is no more"))

        rule = next((rule for rule in await filter_rules(asked.daemons) if rule.uuid == uuid), None)
        if rule is None:
            raise NotFound(f"there is no filter rule {uuid!r:.60}")
        hit = await asked.daemons.luxid(TryFilterRule.of(rule))
        view = Confirmation(
            f"Delete rule {uuid}?",
            await _lines(asked, hit),
            max(0, len(hit) - LISTED),
            f"{_FILTERS}/delete",
            (("uuid", uuid),),
            "delete the rule",
            _FILTERS,
            told=f"It applies to {len(hit)} of the jobs that wait now." if hit else "",
            none="It applies to none of the jobs that wait now.",
            is_grave=True,
        )
        return await self._pages.confirm(asked, view)

    async def _drain(self, asked: Asked, form: Form) -> Response:
        """Drain or open the queue."""
        is_draining = first(form, "drain") == "yes"
        if first(form, "sure") == "yes":
            await asked.daemons.luxid(SetDrainFlag(is_draining))
            told = "the queue takes no more jobs" if is_draining else "the queue takes jobs"
            return await self._done(asked, "Drained" if is_draining else "Opened", TextPart(told))

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
        return await self._pages.confirm(asked, view)

    async def _done(self, asked: Asked, title: str, *pieces: TextPart) -> Response:
        return await self._pages.done(asked, title, [DoneLine(pieces)], _FILTERS)


async def _lines(asked: Asked, job_ids: Sequence[JobId]) -> tuple[JobLine, ...]:
    rows = await jobs_by_id(asked.daemons, job_ids[:LISTED], ROW_FIELDS)
    return job_lines(rows, {}, {}, time.time(), login_of)


# Pause schedules, let them go on, run them by hand, and delete them.

_SCHEDULES = "/ui/schedules"


async def _pause(asked: Asked, form: Form, name: str) -> tuple[TextPart, ...]:
    await asked.daemons.luxid(PauseSchedule(name, True))
    return (TextPart(f"'{name}' makes no runs until it is resumed"),)


async def _resume(asked: Asked, form: Form, name: str) -> tuple[TextPart, ...]:
    view = await asked.daemons.luxid(PauseSchedule(name, False))
    return (TextPart(f"'{view.schedule.name}' makes runs again: {when_words(view.schedule)}"),)


async def _run(asked: Asked, form: Form, name: str) -> tuple[TextPart, ...]:
    # a form that is sent twice is one run
    job_id = await asked.daemons.luxid(RunSchedule(name, first(form, "key")))
    return linked(f"job {job_id} is a run of '{name}'")


async def _delete(asked: Asked, form: Form, name: str) -> tuple[TextPart, ...]:
    is_gone = await asked.daemons.luxid(RemoveScheduleOf(name))
    return (TextPart(f"'{name}' {'is no more; its jobs stay' if is_gone else 'was deleted before'}"),)


@attrs.frozen
class _ScheduleAction:
    # last part of its address, which is the verb
    name: str
    summary: str
    # makes the change; returns what became of the schedule of this name
    change: Callable[[Asked, Form, str], Awaitable[tuple[TextPart, ...]]]
    # what it would come to
    told: str
    do: str
    did: str


_SCHEDULE_ACTIONS: Final = (
    _ScheduleAction(
        "pause", "Pause a schedule.", _pause, "It would make no runs; its jobs go on.", "pause it", "Paused"
    ),
    _ScheduleAction(
        "resume",
        "Let a schedule go on.",
        _resume,
        "It would make runs again; missed ones are not made up for.",
        "resume it",
        "Resumed",
    ),
    _ScheduleAction(
        "run",
        "Run a schedule's job now.",
        _run,
        "Its job would be submitted now; its times stay as they are.",
        "run it now",
        "Submitted",
    ),
    _ScheduleAction(
        "delete", "Delete a schedule.", _delete, "It would make no more runs; its jobs stay.", "delete it", "Deleted"
    ),
)


@attrs.frozen
class ScheduleActs:
    _pages: Pages

    def rows(self) -> Iterator[Call]:
        for action in _SCHEDULE_ACTIONS:
            yield self._pages.form(
                f"{_SCHEDULES}/{action.name}", partial(self._act, action), action.summary, Right.JOBS_SUBMIT
            )

    async def _act(self, action: _ScheduleAction, asked: Asked, form: Form) -> Response:
        """Raises: NotFound: there is no such schedule. Else, to run one, as a submission."""
        name = first(form, "name")
        if first(form, "sure") == "yes":
            return await self._pages.done(
                asked, action.did, [DoneLine(await action.change(asked, form, name))], _SCHEDULES
            )

        if not await asked.daemons.luxid(ListSchedules(0, (name,))):
            raise NotFound(f"there is no schedule {name!r:.60}")
        view = Confirmation(
            f"{action.name.capitalize()} schedule {name}?",
            None,
            0,
            f"{_SCHEDULES}/{action.name}",
            (("name", name), ("key", str(uuid.uuid4()))),
            action.do,
            _SCHEDULES,
            told=action.told,
            is_grave=action.name == "delete",
        )
        return await self._pages.confirm(asked, view)
