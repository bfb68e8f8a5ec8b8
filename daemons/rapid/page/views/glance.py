"""The first screen: what failed, what holds jobs back, which wait longest, and what runs."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, assert_never

import attrs

from common.queue.explanation import Reason
from common.words.fields import JobRow, shown_status
from common.words.outcome import UserName, asker_named
from common.words.times import bare_clock, duration, to_seconds
from daemons.rapid.page.views.frame import TextPart, job_href, linked, rule_href, with_query
from daemons.rapid.page.views.jobview import term_facts, why_short
from protocol.luxi.history import EndedJob
from protocol.luxi.why import Blocker, BlockerKind, LongWait, WayStep

# Names of which many are alike: they are told as one.
#
# Theory. Names are equal when only the numbers in them differ (`backup-1`, `backup-02`); and also, as soon as there are
# `_ALIKE` of them, when only their last words do (`scan-host-web`, `scan-host-db`). What differs is shown as `*`.


_ALIKE: Final = 3
_NUMBER: Final = re.compile(r"\d+")
# up to the last word
_HEAD: Final = re.compile(r"(.*[-_./:= ])[^-_./:= )]+(\)?)", re.DOTALL)
# what a filter's pattern, or its quotes, would read otherwise
_SPECIAL: Final = re.compile(r'[\[\]?*"\\]')


def group_names(names: Sequence[str]) -> list[str]:
    """For each name the name of its group, with * where the names of the group differ; a single one is its own."""
    by_number: dict[str, set[str]] = defaultdict(set)
    counts: dict[str, int] = defaultdict(int)
    for name in names:
        by_number[_NUMBER.sub("*", name)].add(name)
        counts[_NUMBER.sub("*", name)] += 1
    merged = _merged({key: counts[key] for key in by_number if counts[key] == 1})
    return [_group_of(name, by_number, merged) for name in names]


def _group_of(name: str, by_number: Mapping[str, set[str]], merged: Mapping[str, str]) -> str:
    key = _NUMBER.sub("*", name)
    if key in merged:
        return merged[key]
    return key if len(by_number[key]) > 1 else name


def _merged(singles: Iterable[str]) -> dict[str, str]:
    """Names of single jobs -> the pattern of all that differ from it in the last word only."""
    heads: dict[tuple[str, str], list[str]] = defaultdict(list)
    for key in singles:
        if (match := _HEAD.fullmatch(key)) is not None:
            heads[match[1], match[2]].append(key)
    return {key: f"{head}*{end}" for (head, end), keys in heads.items() if len(keys) >= _ALIKE for key in keys}


def _like(title: str) -> str:
    """The value by which a filter finds the names of a group; empty: it finds others."""
    # a * of the title stands for anything there, too
    return "" if _SPECIAL.search(title.replace("*", "")) else f'*"{title}"'


# The failures of the last hour, and those since the visitor looked.


HOUR_S: Final = 3600.0
# older failures are not new to anybody
_LONGEST_S: Final = 7 * 86400.0
_BEGINNING: Final = "never ran: dependency job "
# those that are the consequence of another job's end
CONSEQUENCES: Final = f'status=error & why=~"^{_BEGINNING}"'
# all others
CAUSES: Final = f'status=error & !(why=~"^{_BEGINNING}")'


def failures_since(now: float, looked_at: float | None) -> float:
    """From when on failures are shown: of the last hour, and all that are new to the visitor.

    Args: looked_at: end of the last failure that he has marked as seen; None: he has marked none.
    """
    hour_ago = now - HOUR_S
    return hour_ago if looked_at is None else min(hour_ago, max(looked_at, now - _LONGEST_S))


@attrs.frozen
class Failures:
    """What is known of them."""

    since: float
    looked_at: float | None
    # newest first; those that failed as a job before them did are left out
    jobs: Sequence[EndedJob] = ()
    # how many there are, with those that are not among the jobs, and how many were left out
    total: int = 0
    consequences: int = 0
    # why they cannot be told; "": they can
    wrong: str = ""


@attrs.frozen
class FailureLine:
    """Jobs of equal names that failed alike."""

    # of the newest of them
    job_id: int
    href: str
    summary: str
    user: str
    # how long ago it ended, and when
    ago: str
    at: str
    # why, with the last line of its output
    why: tuple[TextPart, ...]
    # the name, with * where they differ
    what: str
    count: int
    # the list of all of them
    all_href: str
    # whether one of them ended after the visitor last looked
    is_new: bool


@attrs.frozen
class FailuresView:
    told: str
    lines: tuple[FailureLine, ...]
    # number of new ones among the lines; None: the visitor has not marked any as seen yet
    new: int | None
    # failures that are not shown, and where they are
    more: int
    more_href: str
    consequences: int
    consequences_href: str
    # what the mark is to be: the end of the newest one; "": there is nothing to be marked
    mark: str
    wrong: str


# lines that are shown
_MOST_LINES: Final = 20


def failures_view(found: Failures, now: float, user_name: UserName) -> FailuresView:
    count = found.total + found.consequences
    is_hour = now - found.since <= HOUR_S + 1
    told = f"{count:,} in the last hour" if is_hour else f"{count:,} since {bare_clock(found.since)}"
    newest = max((job.end_at for job in found.jobs if job.end_at is not None), default=None)
    is_seen = found.looked_at is not None and newest is not None and newest <= found.looked_at
    groups = list(_alike(found.jobs).items())[:_MOST_LINES]
    shown = [job for _, members in groups for job in members]
    return FailuresView(
        told,
        tuple(_failure_line(title, members, found, now, user_name) for (title, _), members in groups),
        None if found.looked_at is None else sum(_is_new(job, found.looked_at) for job in shown),
        found.total - len(shown),
        _past_href(found.since, CAUSES),
        found.consequences,
        _past_href(found.since, CONSEQUENCES),
        "" if newest is None or is_seen else repr(newest),
        found.wrong,
    )


def _past_href(since: float, where: str) -> str:
    return with_query("/ui/history", [("since", f"@{since:.0f}"), ("where", where)])


def _alike(jobs: Sequence[EndedJob]) -> dict[tuple[str, str], list[EndedJob]]:
    """The jobs by the name of their group and why they failed, but for numbers; those that failed last come first."""
    groups: dict[tuple[str, str], list[EndedJob]] = defaultdict(list)
    for job, title in zip(jobs, group_names([job.name for job in jobs]), strict=True):
        groups[title, _NUMBER.sub("*", _why(job))].append(job)
    return groups


def _why(job: EndedJob) -> str:
    """Without what the line tells anyway."""
    return job.why.removeprefix(f"failed, {job.summary}: ")


def _is_new(job: EndedJob, looked_at: float | None) -> bool:
    return looked_at is not None and job.end_at is not None and job.end_at > looked_at


def _failure_line(
    title: str, members: Sequence[EndedJob], found: Failures, now: float, user_name: UserName
) -> FailureLine:
    newest = members[0]
    pattern = _like(title)
    return FailureLine(
        newest.id,
        job_href(newest.id),
        newest.summary,
        newest.user,
        "" if newest.end_at is None else duration(max(0.0, now - newest.end_at)),
        "" if newest.end_at is None else bare_clock(newest.end_at),
        linked(asker_named(_why(newest), user_name)),
        newest.name if len(members) == 1 else title,
        len(members),
        _past_href(found.since, f"status=error & name={pattern}" if pattern else CAUSES),
        any(_is_new(job, found.looked_at) for job in members),
    )


# What holds the most jobs back, and the way from the job that has waited longest.


# jobs that a line names
_NAMED: Final = 5
# what holds jobs back, in a word
WORDS: Final = {
    BlockerKind.OWNER: "owner of locks",
    BlockerKind.RING: "they wait for each other",
    BlockerKind.BUCKET: "limit",
    BlockerKind.RULE: "limit of a rule",
    BlockerKind.BATCH: "limit of a batch",
    BlockerKind.RESOURCE: "resource",
    BlockerKind.PAUSE: "paused by a rule",
    BlockerKind.SLOTS: "places for jobs",
}


@attrs.frozen
class Known:
    """What is known of those that blockers and waits name."""

    rows: Mapping[int, JobRow]
    # reasons of some jobs
    reasons: Mapping[int, Sequence[Reason] | None]
    # uuid of a filter rule -> what people call it
    rules: Mapping[str, str]

    def title(self, job_id: int) -> str:
        """What people call the job; "": it is not known."""
        row = self.rows.get(job_id)
        return "" if row is None else row["name"] or ", ".join(row["summary"])

    def job(self, job_id: int) -> TextPart:
        return TextPart(f"job {job_id}", job_href(job_id), self.title(job_id))


@attrs.frozen
class WayPart:
    """What the one before it waits for."""

    part: TextPart
    # lock by which it holds the other one; None: the other one waits for its end, or for a place
    lock: TextPart | None


@attrs.frozen
class WayView:
    start: TextPart
    parts: tuple[WayPart, ...]
    # number of parts that are left out, and before which part that is
    left_out: int
    gap: int


@attrs.frozen
class BlockerLine:
    part: TextPart
    # of a job its name; else what it is
    what: str
    # of a job: as users read it; "": it is none
    status: str
    # what it does, or how full it is
    told: str
    # jobs that have its places, and how many are not named
    holders: tuple[TextPart, ...]
    more: int
    # jobs behind it, and those that wait for it directly
    count: str
    direct: str
    # how long the longest of them has waited
    longest: str
    way: WayView | None
    is_ring: bool


def blocker_lines(blockers: Iterable[Blocker], known: Known, now: float) -> tuple[BlockerLine, ...]:
    return tuple(_blocker_line(each, known, now) for each in blockers)


def _blocker_line(blocker: Blocker, known: Known, now: float) -> BlockerLine:
    is_job = blocker.kind is BlockerKind.JOB
    row = known.rows.get(int(blocker.name)) if is_job else None
    holders = blocker.job_ids[:_NAMED]
    at_least = "at least " if blocker.is_at_least else ""
    return BlockerLine(
        part_of(blocker.kind, blocker.name, known),
        known.title(int(blocker.name)) if is_job else WORDS.get(blocker.kind, blocker.kind.value),
        shown_status(row["status"]) if row is not None and row["status"] else "",
        _doing(row, known, now) if is_job else _fullness(blocker),
        tuple(map(known.job, holders)),
        max(0, blocker.used - len(holders)) if holders and blocker.kind is not BlockerKind.RESOURCE else 0,
        f"{at_least}{blocker.behind:,}",
        f"{blocker.direct:,}" if blocker.direct != blocker.behind else "",
        _lasting(blocker.longest, now),
        None if blocker.longest is None else way_view(blocker.longest, known),
        blocker.kind is BlockerKind.RING,
    )


def _lasting(wait: LongWait | None, now: float) -> str:
    return "" if wait is None or wait.since is None else duration(max(0.0, now - wait.since))


def _doing(row: JobRow | None, known: Known, now: float) -> str:
    """What a job does that others wait for: how long it has run, or what keeps it."""
    if row is None:
        return ""
    start = to_seconds(row["start_ts"])
    if row["status"] == "running" and start is not None:
        return f"for {duration(max(0.0, now - start))}"
    terms = [f"{title} {text}" for title, text in term_facts(row, now) if title in ("begins", "on hold")]
    why = "".join(part.text for part in why_short(known.reasons.get(row["id"]), now))
    return "; ".join(each for each in (*terms, why) if each)


def _fullness(blocker: Blocker) -> str:
    if blocker.limit is None:
        return "" if blocker.kind is not BlockerKind.RESOURCE else "its total is not set"
    unit = "in use" if blocker.kind is BlockerKind.RESOURCE else "taken"
    return f"{blocker.used:,} of {blocker.limit:,} {unit}"


def part_of(kind: BlockerKind, name: str, known: Known) -> TextPart:
    """What holds jobs back, by its name, and the page that tells more."""
    match kind:
        case BlockerKind.JOB:
            return known.job(int(name))
        case BlockerKind.RING:
            return TextPart("ring of locks", "/ui/locks?awaited=yes")
        case BlockerKind.RULE | BlockerKind.PAUSE:
            return TextPart(known.rules.get(name) or f"{name[:8]}…", rule_href(name), name)
        case BlockerKind.BUCKET:
            return TextPart(name, "/ui/filters#buckets")
        case BlockerKind.BATCH:
            return TextPart(name, with_query("/ui/jobs", [("where", f'batch="{name}"')]))
        case BlockerKind.RESOURCE:
            return TextPart(name, with_query("/ui/resources", [("name", name)]))
        case BlockerKind.SLOTS:
            return TextPart("all places", with_query("/ui/jobs", [("where", "status=running")]))
        case BlockerKind.OWNER:
            return TextPart(name, with_query("/ui/locks", [("lock", name)]))
        case _:
            assert_never(kind)


def way_view(wait: LongWait, known: Known) -> WayView:
    steps = [*wait.way]
    # the first steps and the last ones are as many
    gap = len(steps) // 2 if wait.left_out else len(steps)
    return WayView(known.job(wait.job_id), tuple(_way_part(step, known) for step in steps), wait.left_out, gap)


def _way_part(step: WayStep, known: Known) -> WayPart:
    part = part_of(step.kind, step.name, known)
    word = WORDS.get(step.kind) if step.kind not in (BlockerKind.SLOTS, BlockerKind.OWNER) else None
    shown = TextPart(f"{word} {part.text}" if word else part.text, part.href, part.whole)
    lock = TextPart(step.lock, with_query("/ui/locks", [("lock", step.lock)])) if step.lock else None
    return WayPart(shown, lock)


def jobs_named(blockers: Iterable[Blocker], waits: Iterable[LongWait]) -> list[int]:
    """The jobs that blockers and waits name, each once, the blockers first."""
    blockers, waits = list(blockers), list(waits)
    found = dict.fromkeys(int(each.name) for each in blockers if each.kind is BlockerKind.JOB)
    found |= dict.fromkeys(job_id for each in blockers for job_id in each.job_ids[:_NAMED])
    for wait in (*(each.longest for each in blockers if each.longest is not None), *waits):
        found[wait.job_id] = None
        found |= dict.fromkeys(int(step.name) for step in wait.way if step.kind is BlockerKind.JOB)
    return list(found)


# The jobs that have waited longest.


@attrs.frozen
class WaitLine:
    """Jobs of equal names that wait for the same."""

    # of the one that has waited longest
    job_id: int
    href: str
    status: str
    summary: str
    user: str
    time: str
    # None: no way is known
    way: WayView | None
    # what it waits for, where no way is known
    why: tuple[TextPart, ...]
    # the name, with * where they differ
    what: str
    count: int
    # the list of all of them
    all_href: str


def wait_lines(waits: Iterable[LongWait], known: Known, now: float, most: int) -> tuple[WaitLine, ...]:
    """The longest come first; jobs that are not there any more are left out."""
    there = [wait for wait in waits if wait.job_id in known.rows]
    groups: dict[tuple[str, WayStep | None], list[LongWait]] = defaultdict(list)
    for wait, title in zip(there, group_names([known.title(wait.job_id) for wait in there]), strict=True):
        groups[title, wait.way[0] if wait.way else None].append(wait)
    lines = (_wait_line(title, members, known, now) for (title, _), members in groups.items())
    return tuple(islice(lines, most))


def _wait_line(title: str, members: Sequence[LongWait], known: Known, now: float) -> WaitLine:
    longest = members[0]
    row = known.rows[longest.job_id]
    return WaitLine(
        longest.job_id,
        job_href(longest.job_id),
        shown_status(row["status"]),
        ", ".join(row["summary"]),
        row["user"] or "",
        _lasting(longest, now),
        way_view(longest, known) if longest.way else None,
        why_short(known.reasons.get(longest.job_id), now) or (TextPart("waits for its turn"),),
        known.title(longest.job_id) if len(members) == 1 else title,
        len(members),
        _jobs_like(title, [known.rows[wait.job_id] for wait in members], "status=queued|status=waiting"),
    )


# What runs: jobs of equal names are one line.


@attrs.frozen
class RunningGroup:
    """Jobs that run, of equal names."""

    # the name, with * where they differ
    title: str
    count: int
    # the job that has run longest, and how long
    first: TextPart
    longest: str
    users: str
    href: str


def running_groups(rows: Sequence[JobRow], now: float) -> tuple[RunningGroup, ...]:
    """The largest groups first; those of one job by how long they have run."""
    titles = [row["name"] or ", ".join(row["summary"]) for row in rows]
    groups: dict[str, list[JobRow]] = defaultdict(list)
    for row, group in zip(rows, group_names(titles), strict=True):
        groups[group].append(row)
    found = [_running_group(title, members, now) for title, members in groups.items()]
    return tuple(group for _, group in sorted(found, key=lambda each: (-each[1].count, each[0])))


def _running_group(title: str, members: Sequence[JobRow], now: float) -> tuple[float, RunningGroup]:
    started = {row["id"]: to_seconds(row["start_ts"]) or now for row in members}
    first = min(started, key=lambda job_id: (started[job_id], job_id))
    users = sorted({row["user"] or "" for row in members} - {""})
    named = ", ".join(users[:2]) + (f" and {len(users) - 2} more" if len(users) > 2 else "")
    group = RunningGroup(
        title,
        len(members),
        TextPart(f"job {first}", job_href(first)),
        duration(max(0.0, now - started[first])),
        named,
        job_href(first) if len(members) == 1 else _jobs_like(title, members, "status=running"),
    )
    return started[first], group


def _jobs_like(title: str, members: Sequence[JobRow], states: str) -> str:
    """The list of the jobs of a group in these states."""
    field = "name" if all(row["name"] for row in members) else "summary"
    pattern = _like(title)
    return with_query("/ui/jobs", [("where", f"({states}) & {field}={pattern}" if pattern else states)])


# The jobs of the timeline: those that hold others back, failed, or take long.


def worth_drawing(
    blockers: Iterable[Blocker], failures: Iterable[EndedJob], running: Iterable[JobRow], waits: Iterable[LongWait],
    most: int,
) -> list[int]:  # fmt: skip
    """The ids of so many jobs, the most important of each kind in turn, and then by id."""
    begun = sorted(running, key=lambda row: (to_seconds(row["start_ts"]) or 0.0, row["id"]))
    kinds: list[Iterator[int]] = [
        iter(jobs_named(blockers, ())),
        (job.id for job in failures),
        (row["id"] for row in begun),
        (wait.job_id for wait in waits),
    ]
    chosen: dict[int, None] = {}
    while kinds and len(chosen) < most:
        for kind in list(kinds):
            job_id = next((each for each in kind if each not in chosen), None)
            if job_id is None:
                kinds.remove(kind)
            elif len(chosen) < most:
                chosen[job_id] = None
    return sorted(chosen)
