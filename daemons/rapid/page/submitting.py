"""Submit jobs from the page: a form, a look at what it would make, and the submission.

Theory. The form comes back with the jobs that it would make, and with a mark that stands for its texts. Only a form
with this mark, whose texts are still the same, is submitted; another is looked at again. So nothing is submitted that
was not shown. Each look has a key of its own, under which luxid submits once.
"""

import re
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Final

import attrs
from starlette.responses import Response

from common.errors import GantryError, InvalidRequest, NotFound
from common.ids import JobId, read_number
from common.queue.reruns import chosen, to_edit
from common.system.inthread import in_thread
from common.webaccess.rights import Right
from daemons.rapid.calls import Asked, Call
from daemons.rapid.page import jobforms
from daemons.rapid.page.jobforms import FIELDS, ReadJobs, Texts
from daemons.rapid.page.pages import Pages, shown
from daemons.rapid.page.views.boards import DoneLine, SubmitView
from daemons.rapid.page.views.frame import TextPart, linked
from daemons.rapid.page.visitors import Form, first
from daemons.rapid.refusals import status_of
from daemons.rapid.resources.jobchanges import old_jobs
from protocol.luxi.jobs import JobInput, Refused, SubmitAnswer, SubmitOnce

# jobs of a look that are listed
LISTED: Final = 50
_TOLD: Final = 200
_INSTANT: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?", re.ASCII)
# seconds from a look to the submission in which relative times are those of the look
_LONGEST_S: Final = 86400.0
# status of what is wrong with a form; all else is an error of its own
TOLD_IN_FORM: Final = (400, 403, 409)
CHANGED: Final = "The form was changed since it was looked at; this is what it would submit now."


@attrs.frozen
class Submitting:
    _pages: Pages

    def rows(self) -> Iterator[Call]:
        own = Right.JOBS_SUBMIT
        yield shown("/ui/submit", self._show, "The form with jobs to submit.", own)
        yield self._pages.form("/ui/submit", self._submit, "Look at jobs to submit, or submit them.", own)

    async def _show(self, asked: Asked) -> Response:
        """The form, empty, or filled with an ended job. Raises: NotFound, Conflict, Denied, InvalidRequest."""
        query = asked.http.query_params
        of = query.get("of", "")
        if not of:
            kind = query.get("kind", "")
            return await self._form(asked, Texts({"kind": "plan" if kind == "plan" else "command"}))
        if not (number := read_number(of)):
            raise NotFound(f"there is no job {of!r:.40}; job ids are whole numbers from 1")
        (old,) = chosen(await old_jobs(asked.daemons, [JobId(number)]), failed_only=False)
        texts = await in_thread(lambda: jobforms.filled(*to_edit(old)))
        return await self._form(asked, texts, told=f"filled with job {number}")

    async def _submit(self, asked: Asked, form: Form) -> Response:
        """Look at the form, or submit it."""
        texts = with_file(Texts.of(form))
        is_sure = first(form, "sure") == "yes"
        now = _looked_at(texts) if is_sure else time.time()
        # a plan may take long to read
        read = await in_thread(jobforms.read_jobs, texts, now)
        if read.wrong:
            return await self._form(asked, texts, read, status=400)
        if not is_sure:
            return await self._form(asked, texts, read, now=now)
        if texts["seen"] != texts.digest(FIELDS):
            return await self._form(asked, texts, read, wrong=CHANGED, now=now)
        return await self._send(asked, texts, read, tuple(job.to_input(int(now * 1e9)) for job in read.jobs))

    async def _send(self, asked: Asked, texts: Texts, read: ReadJobs, jobs: tuple[JobInput, ...]) -> Response:
        key = texts["key"] or str(uuid.uuid4())
        try:
            told = await asked.daemons.luxid(SubmitOnce(jobs, key[:100]))
        except GantryError as error:
            if status_of(error) not in TOLD_IN_FORM:
                raise
            return await self._refused(asked, texts, read, error)
        refused = [answer.message for answer in told.answers if isinstance(answer, Refused)]
        if len(refused) == len(told.answers):
            return await self._refused(asked, texts, read, InvalidRequest("; ".join(dict.fromkeys(refused[:5]))))
        names = [job.name for job in read.jobs]
        earlier = (DoneLine((TextPart("this form was sent before: these are the jobs of then"),)),)
        lines = [_line(name, answer, read) for name, answer in zip(names, told.answers, strict=True)]
        count = len(told.answers) - len(refused)
        title, shown_lines = f"Submitted: {count} of {len(told.answers)}", lines[:_TOLD]
        return await self._pages.done(asked, title, (*(earlier if told.is_earlier else ()), *shown_lines), "/ui/jobs")

    async def _refused(self, asked: Asked, texts: Texts, read: ReadJobs, error: GantryError) -> Response:
        wrong, now = read.located(error.message), _looked_at(texts)
        return await self._form(asked, texts, read, wrong=wrong, status=status_of(error), now=now)

    async def _form(
        self,
        asked: Asked,
        texts: Texts,
        read: ReadJobs | None = None,
        *,
        told: str = "",
        wrong: str = "",
        status: int = 200,
        now: float | None = None,
    ) -> Response:
        is_looked_at = read is not None and not read.wrong
        marks: Mapping[str, str] = {} if read is None else read.wrong
        looks = read.looks() if read is not None and is_looked_at else ()
        view = SubmitView(
            "Submit jobs",
            told,
            texts.is_plan,
            jobforms.command_fields(texts, {} if texts.is_plan else marks),
            jobforms.plan_field(texts, marks if texts.is_plan else {}),
            texts["plan.filename"],
            wrong,
            looks[:LISTED],
            max(0, len(looks) - LISTED),
            str(uuid.uuid4()) if is_looked_at else "",
            texts.digest(FIELDS) if is_looked_at else "",
            repr(now) if now is not None else "",
        )
        return await self._pages.page(asked, "submit", view.title, view, status)


def _looked_at(texts: Texts) -> float:
    """When the form was looked at: what it calls *tomorrow* is meant from then on; in seconds since the epoch."""
    text, now = texts["at"], time.time()
    at = float(text) if _INSTANT.fullmatch(text) else now
    return at if abs(now - at) < _LONGEST_S else now


def with_file(texts: Texts) -> Texts:
    """The texts with the content of an uploaded file as the plan."""
    if not texts["file"]:
        return texts
    return Texts({**texts.values, "plan": texts["file"], "plan.filename": texts["file.filename"]})


def _line(name: str, answer: SubmitAnswer, read: ReadJobs) -> DoneLine:
    if isinstance(answer, Refused):
        return DoneLine(linked(read.located(answer.message)), is_wrong=True)
    return DoneLine(linked(f"job {answer.job_id}" + (f": {name}" if name else "")))
