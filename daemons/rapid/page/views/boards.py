"""The pages, each as the texts, links and drawings that stand on it."""

import attrs

from common.printable import json_text
from daemons.rapid.page.drawing import Chart, Timeline
from daemons.rapid.page.views.frame import Act, Choice, TextPart
from daemons.rapid.page.views.glance import BlockerLine, FailuresView, RunningGroup, WaitLine
from daemons.rapid.page.views.graphview import GraphView
from daemons.rapid.page.views.jobview import JobLine, JobPageView, PastView
from daemons.rapid.page.views.nodeview import NodeTableRow
from daemons.rapid.page.views.outputview import OutputView
from daemons.rapid.page.views.things import BucketLine, LockLine, ResourceLine, RuleLine, ScheduleLine


@attrs.frozen
class Tile:
    # state whose colour and sign it has; "": none
    kind: str
    label: str
    value: str
    href: str
    of: str = ""
    note: str = ""

    @property
    def has_sign(self) -> bool:
        return bool(self.kind)


@attrs.frozen
class BlockersView:
    lines: tuple[BlockerLine, ...]
    # how many jobs wait, in words
    told: str
    # what is not known, and whether some may be missing
    unknown: str
    is_partial: bool


@attrs.frozen
class RunningView:
    groups: tuple[RunningGroup, ...]
    told: str
    # groups, and jobs, that are not shown
    more: int


@attrs.frozen
class Dashboard:
    tiles: tuple[Tile, ...]
    failed: FailuresView
    blockers: BlockersView
    longest: tuple[WaitLine, ...]
    running: RunningView
    timeline: Timeline
    # whether the lanes are of the jobs that matter; else of the newest
    is_chosen: bool
    lanes_by: tuple[Choice, ...]
    locks: tuple[LockLine, ...]
    lock_count: int
    rules: tuple[RuleLine, ...]
    buckets: tuple[BucketLine, ...]
    rates: Chart
    is_glance: bool = True


@attrs.frozen
class JobList:
    where: str
    # why the filter cannot be used; "": it can
    wrong: str
    told: str
    lines: tuple[JobLine, ...]
    # addresses of the first and the next page; None: it is this one, there is none
    first: str | None
    older: str | None
    range: str
    choices: tuple[Choice, ...]
    acts: tuple[Act, ...]
    # names of the fields that a filter may compare
    fields: tuple[str, ...]
    may_submit: bool = False


@attrs.frozen
class JobPageBoard:
    job: JobPageView
    # "": the user is not known
    user_href: str
    timeline: Timeline
    graph: GraphView
    acts: tuple[Act, ...]
    # None: it has none
    output: OutputView | None
    # address of the form that is filled with it; None: it has not ended, or the caller may submit nothing
    edit: str | None = None


@attrs.frozen
class LockPage:
    # part of a lock's name
    lock: str
    choices: tuple[Choice, ...]
    locks: tuple[LockLine, ...]
    lock_count: int
    graph: GraphView
    # jobs whose end others wait for
    awaited: tuple[LockLine, ...] = ()
    awaited_count: int = 0
    is_glance: bool = False
    is_beside: bool = True


@attrs.frozen
class GraphPage:
    graph: GraphView
    # jobs around which the graph is, as they were typed
    jobs: str
    # why these cannot be used; "": they can
    wrong: str = ""
    is_beside: bool = False


@attrs.frozen
class FilterPage:
    rules: tuple[RuleLine, ...]
    buckets: tuple[BucketLine, ...]
    # number of buckets, which may be more than are shown
    bucket_count: int
    may_write: bool
    may_drain: bool
    is_glance: bool = False


@attrs.frozen
class NamedChart:
    title: str
    drawn: Chart
    unit: str
    told: str = ""

    @property
    def plot(self) -> str:
        """The same as JSON, for the script that shows values under the pointer."""
        curves = [
            {"name": each.name, "kind": each.kind, "values": [_short(value) for value in each.values]}
            for each in self.drawn.curves
        ]
        return json_text({"unit": self.unit, "instants": list(map(round, self.drawn.instants)), "curves": curves})


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


@attrs.frozen
class Figure:
    name: str
    value: str
    meaning: str


@attrs.frozen
class RatePage:
    charts: tuple[NamedChart, ...]
    now: tuple[Figure, ...]


@attrs.frozen
class FailureRow:
    name: str
    failed: int
    ended: int
    href: str | None = None

    @property
    def percent(self) -> int:
        return round(100 * self.failed / self.ended) if self.ended else 0


@attrs.frozen
class FailureTable:
    title: str
    told: str
    # title of the first column
    of: str
    rows: tuple[FailureRow, ...]


@attrs.frozen
class HistoryPage:
    tables: tuple[FailureTable, ...]
    lines: tuple[JobLine, ...]
    # None: only the whole page shows it
    past: PastView | None


@attrs.frozen
class ResourcePage:
    # part of a name
    text: str
    lines: tuple[ResourceLine, ...]
    count: int


@attrs.frozen
class NodePage:
    lines: tuple[NodeTableRow, ...]


@attrs.frozen
class SchedulePage:
    # part of a name
    text: str
    lines: tuple[ScheduleLine, ...]
    count: int
    may_change: bool


@attrs.frozen
class LoginPage:
    name: str
    back: str
    wrong: str = ""


@attrs.frozen
class FormField:
    """A field of a form, with what its visitor wrote."""

    name: str
    title: str
    value: str = ""
    # what is wrong with it; "": nothing
    wrong: str = ""
    example: str = ""
    is_long: bool = False
    is_box: bool = False
    # (value, text); empty: it is a text
    options: tuple[tuple[str, str], ...] = ()


@attrs.frozen
class Confirmation:
    """What a change would do, before it is done."""

    question: str
    # None: it does not concern single jobs
    lines: tuple[JobLine, ...] | None
    # number of jobs that are concerned and not listed
    more: int
    action: str
    # hidden fields of the form
    values: tuple[tuple[str, str], ...]
    do: str
    back: str
    told: str = ""
    none: str = "No job matches."
    # that go with the change
    fields: tuple[FormField, ...] = ()
    is_grave: bool = False
    can_do: bool = True


@attrs.frozen
class JobLook:
    """A job that would be submitted."""

    # from 1
    place: int
    # "": none
    name: str
    # its opcodes, each in a word
    summary: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]


@attrs.frozen
class SubmitView:
    """A form with jobs to submit."""

    title: str
    told: str
    is_plan: bool
    fields: tuple[FormField, ...]
    plan: FormField
    # name of the file from which the plan is
    file_name: str
    # what is wrong with the form as a whole; "": nothing
    wrong: str = ""
    # the jobs of a form that was checked
    looks: tuple[JobLook, ...] = ()
    # number of jobs beyond these
    more: int = 0
    # chosen for one submission
    key: str = ""
    # stands for the texts that were checked; "": they were not
    seen: str = ""
    # when they were, in seconds since the epoch
    at: str = ""


@attrs.frozen
class ScheduleFormView:
    """A form with a schedule."""

    title: str
    name: FormField
    # name of the schedule that is changed; "": it is a new one
    of: str
    is_plan: bool
    times: tuple[FormField, ...]
    fields: tuple[FormField, ...]
    plan: FormField
    # name of the file from which the plan is
    file_name: str
    # stands for the job as it is
    was: str
    # of the schedule when the form was opened; "": it is a new one
    tag: str
    # what is wrong with the form as a whole; "": nothing
    wrong: str
    is_looked_at: bool
    # its job, if it is another one
    looks: tuple[JobLook, ...]
    next: tuple[str, ...]
    note: str
    # stands for the texts that were looked at; "": they were not
    seen: str


@attrs.frozen
class DoneLine:
    pieces: tuple[TextPart, ...]
    is_wrong: bool = False


@attrs.frozen
class DoneView:
    title: str
    lines: tuple[DoneLine, ...]
    back: str


@attrs.frozen
class RefusalView:
    message: str
    back: str = "/ui"


@attrs.frozen
class KeysView:
    # (keys, what they do)
    keys: tuple[tuple[tuple[str, ...], str], ...] = (
        (("g", "d"), "dashboard"),
        (("g", "j"), "jobs"),
        (("g", "l"), "locks"),
        (("g", "w"), "who waits for whom"),
        (("g", "f"), "filters"),
        (("g", "r"), "rates"),
        (("g", "h"), "history"),
        (("g", "s"), "schedules"),
        (("g", "u"), "resources, by units"),
        (("g", "n"), "nodes"),
        (("/",), "to the search or filter of this page; on the page of a job, of its output"),
        (("Ctrl-K",), "to the search of jobs, from anywhere"),
        (("Esc",), "out of it"),
        (("j", "k"), "next and previous job of the list"),
        (("Enter",), "open it"),
        (("x",), "choose it"),
        (("n",), "older jobs"),
        (("u",), "back"),
        (("?",), "these keys"),
    )
