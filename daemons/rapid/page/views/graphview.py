"""The graph of waits: what each box says, and what was left out."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import attrs

from common.queue.jobs import FINAL_NAMES
from common.words.fields import JobRow, job_title, shown_status
from daemons.rapid.page.views.frame import Choice, with_query
from daemons.rapid.page.views.glance import WORDS, Known, part_of
from daemons.rapid.page.waitgraph import ALL, Arrow, DrawnGraph, GraphNode, Group, WaitArrow, fold, place
from protocol.luxi import why
from protocol.luxi.why import BlockerKind, WaitGraph

# luxid's fields for a node that is a job
NODE_FIELDS: Final = ("id", "status", "name", "summary", "hold")
# nodes of a page of its own, and of one that has the graph beside other things
MOST: Final = 1500
MOST_BESIDE: Final = 300
_PATH: Final = "/ui/graph"
# per cent
ZOOMS: Final = (25, 50, 75, 100, 150, 200)
_WHOLE: Final = 100
# characters that a box has room for
_NAME: Final = 27
_NOTE: Final = 40
# kinds of notes that are told of a box
_NOTES: Final = 4
_WHAT: Final = 14
# pixels: of a state's sign with its gaps, of a character, and those that states have in a box
_SIGN: Final = 24
_CHARACTER: Final = 7
_STATES: Final = 226
# the worst first
_ORDER: Final = ("error", "ending", "running", "waiting", "queued", "canceled", "success")


@attrs.frozen
class GraphFacts:
    graph: WaitGraph
    known: Known

    @property
    def job_ids(self) -> tuple[int, ...]:
        return tuple(int(node.name) for node in self.graph.nodes if node.kind is BlockerKind.JOB)


NOTHING: Final = GraphFacts(WaitGraph(), Known({}, {}, {}))


@attrs.frozen
class Shown:
    """What the address of a page says of its graph."""

    # jobs around which it is; empty: all that wait
    job_ids: tuple[int, ...] = ()
    # shapes that are unfolded
    unfolded: tuple[str, ...] = ()
    # per cent
    zoom: int = _WHOLE

    @property
    def href(self) -> str:
        jobs = [("job", job_id) for job_id in self.job_ids]
        unfolded = [("unfold", shape) for shape in self.unfolded]
        return with_query(_PATH, [*jobs, *unfolded, ("zoom", self.zoom if self.zoom != _WHOLE else "")])

    def zoomed(self, zoom: int) -> str:
        return attrs.evolve(self, zoom=zoom).href

    def with_unfolded(self, *shapes: str) -> str:
        return attrs.evolve(self, unfolded=shapes).href


@attrs.frozen
class BoxText:
    """A box with all that it says."""

    x: int
    y: int
    # unique in the drawing, for people who look for it
    name: str
    # the whole of what it says, for those who point at it, and for the list
    whole: str
    # None: it leads nowhere
    href: str | None
    # (state, text, pixels from the left of the box)
    states: tuple[tuple[str, str, int], ...]
    note: str
    # classes of the style sheet
    kind: str
    # whole names of what it waits for
    waits_for: tuple[str, ...]


@attrs.frozen
class ArrowText:
    path: str
    x: int
    y: int
    text: str
    # all locks; for people who point at it
    whole: str
    # classes of the style sheet
    kind: str
    is_ring: bool


@attrs.frozen
class GraphView:
    boxes: tuple[BoxText, ...] = ()
    arrows: tuple[ArrowText, ...] = ()
    width: int = 0
    height: int = 0
    zoom: int = _WHOLE
    # what it shows
    told: str = ""
    # what it does not show; "": nothing is left out
    cut: str = ""
    # why waits for locks are left out; "": they are not
    unknown: str = ""
    zooms: tuple[Choice, ...] = ()
    # addresses of the same with all boxes folded or unfolded, and of the page of its own
    folds: tuple[Choice, ...] = ()
    page: str = _PATH


def graph_view(facts: GraphFacts, shown: Shown) -> GraphView:
    graph = facts.graph
    waiting = {edge.waiter for edge in graph.edges if not edge.is_over}
    nodes = tuple(
        _node(each, facts, is_root=place not in waiting and not each.more_ahead)
        for place, each in enumerate(graph.nodes)
    )
    waits = tuple(
        WaitArrow(nodes[edge.waiter].key, nodes[edge.holder].key, _what(edge), edge.is_over) for edge in graph.edges
    )
    kept = frozenset(f"job/{job_id}" for job_id in shown.job_ids)
    drawn = place(fold(nodes, waits, kept, shown.unfolded))
    return GraphView(
        tuple(_boxes(drawn, kept, shown)),
        tuple(map(_arrow, drawn.arrows)),
        drawn.width,
        drawn.height,
        shown.zoom,
        _told(nodes, drawn),
        _cut(graph),
        graph.unknown,
        tuple(Choice(f"{zoom} %", shown.zoomed(zoom), zoom == shown.zoom) for zoom in ZOOMS),
        tuple(_folds(drawn, shown)),
        shown.href,
    )


# nodes and waits


def _node(node: why.WaitNode, facts: GraphFacts, *, is_root: bool) -> GraphNode:
    is_job, part = node.kind is BlockerKind.JOB, part_of(node.kind, node.name, facts.known)
    row = facts.known.rows.get(int(node.name)) if is_job else None
    is_over = is_job and (row is None or row["status"] in FINAL_NAMES)
    return GraphNode(
        f"job/{node.name}" if is_job else f"{node.kind.value} {node.name}",
        (row and job_title(row, ", ")) or part.text,
        shown_status(row["status"]) if row is not None else "",
        tuple(_notes(node, row, facts.graph.unknown, is_root=is_root and not is_over)),
        part.href,
        is_root and not is_over,
        is_over,
        node.kind.value,
    )


def _notes(node: why.WaitNode, row: JobRow | None, unknown: str, *, is_root: bool) -> Iterator[str]:
    """What is told of a node beside its name and its state: first why it is where it is, then what is not drawn."""
    if node.kind is BlockerKind.JOB:
        if row is None:
            yield "has ended"
        elif row["hold"] is not None:
            yield "on hold"
        elif is_root:
            yield _of_root(row["status"] or "", unknown)
    elif node.kind is not BlockerKind.OWNER:
        yield WORDS[node.kind] if node.limit is None else f"{WORDS[node.kind]}, {node.used:,} of {node.limit:,}"
    elif is_root:
        yield "waits for nobody"
    if node.more_ahead:
        yield f"waits for {node.more_ahead:,} more"
    if node.more_behind:
        yield f"{node.more_behind:,} more {'waits' if node.more_behind == 1 else 'wait'} for it"
    if node.more_ended:
        yield f"{node.more_ended:,} ended {'one' if node.more_ended == 1 else 'ones'} not shown"


def _of_root(status: str, unknown: str) -> str:
    if status == "waiting":
        return "its locks are not known" if unknown else "waits for its turn at a lock"
    return "waits for nobody" if status in ("running", "canceling") else "waits for no other job"


def _what(edge: why.WaitEdge) -> str:
    if edge.skipped:
        return f"{edge.skipped:,} between"
    return edge.lock


# boxes and arrows


def _boxes(drawn: DrawnGraph, kept: Collection[str], shown: Shown) -> Iterator[BoxText]:
    ahead: dict[int, list[str]] = {}
    for arrow in drawn.arrows:
        if not arrow.is_over:
            ahead.setdefault(arrow.waiter, []).append(_title(drawn.boxes[arrow.holder].group))
    for at, box in enumerate(drawn.boxes):
        group = box.group
        first, title = group.members[0], _title(group)
        states = tuple(_states(group))
        notes = ["in a chain: each waits for the next"] if group.is_chain else []
        notes += _group_notes(group)
        kind = " ".join(name for name, is_so in (
            ("root", any(each.is_root for each in group.members)), ("self", first.key in kept),
            ("fold", group.is_fold), ("over", all(each.is_over for each in group.members)),
        ) if is_so)  # fmt: skip
        number = "" if group.is_fold or not first.key.startswith("job/") else first.key.removeprefix("job/")
        name = _cut_text(title if group.is_fold else first.name, _NAME - len(number) - bool(number))
        note = "; ".join(notes)
        words = (title, ", ".join(f"{text} {state}" if group.is_fold else state for state, text in states), note)
        yield BoxText(
            box.x,
            box.y,
            f"{number} {name}".strip(),
            "; ".join(each for each in words if each),
            shown.with_unfolded(*shown.unfolded, group.shape) if group.is_fold else first.href,
            tuple(_fitting(states)),
            _cut_text(note, _NOTE),
            kind,
            tuple(ahead.get(at, ())),
        )


def _title(group: Group) -> str:
    """What a box is called, as a whole."""
    first = group.members[0]
    if group.is_fold:
        what = group.shape if group.shape != ALL else "jobs" if first.kind == BlockerKind.JOB.value else "others"
        return f"{what} × {len(group.members)}"
    return f"job {first.key.removeprefix('job/')} {first.name}" if first.key.startswith("job/") else first.name


def _states(group: Group) -> Iterator[tuple[str, str]]:
    counts = group.counts
    for state in sorted(filter(None, counts), key=_ORDER.index):
        yield state, str(counts[state]) if group.is_fold else ""


def _fitting(states: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str, int]]:
    """The states for which a box has room, and where they stand."""
    x = 0
    for state, count in states:
        text = f"{count} {state}".strip()
        width = _SIGN + _CHARACTER * len(text)
        if x + width > _STATES:
            return
        yield state, text, x
        x += width


def _group_notes(group: Group) -> list[str]:
    """The notes of the members, those of most first."""
    counts = Counter(note for member in group.members for note in member.notes)
    total = len(group.members)
    return [note if count == total else f"{count} of them: {note}" for note, count in counts.most_common(_NOTES)]


def _arrow(arrow: Arrow) -> ArrowText:
    text = arrow.what[0] if len(arrow.what) == 1 else f"{len(arrow.what)} waits" if arrow.what else ""
    kind = " ".join(name for name, is_so in (("ring", arrow.is_ring), ("over", arrow.is_over)) if is_so)
    return ArrowText(arrow.path, arrow.x, arrow.y, _cut_text(text, _WHAT), ", ".join(arrow.what), kind, arrow.is_ring)


def _cut_text(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


# what stands above


def _told(nodes: Sequence[GraphNode], drawn: DrawnGraph) -> str:
    jobs = sum(node.kind == BlockerKind.JOB.value for node in nodes)
    in_boxes = f" in {len(drawn.boxes):,} boxes" if len(drawn.boxes) < len(nodes) else ""
    return f"{jobs:,} {'job' if jobs == 1 else 'jobs'}{in_boxes}"


def _cut(graph: WaitGraph) -> str:
    skipped = sum(edge.skipped for edge in graph.edges)
    ahead = sum(node.more_ahead for node in graph.nodes)
    # of those that wait for what others wait for, too, nobody asked
    behind = sum(node.more_behind for node in graph.nodes if node.kind is BlockerKind.JOB) if graph.is_full else 0
    ended = sum(node.more_ended for node in graph.nodes)
    parts = [
        f"{graph.left_out:,} jobs that wait" if graph.left_out else "",
        f"{skipped:,} jobs of long chains" if skipped else "",
        f"{ahead:,} waits of jobs that are shown" if ahead else "",
        f"{behind:,} waits for them" if behind else "",
        f"{ended:,} ended jobs" if ended else "",
    ]
    left_out = ", ".join(each for each in parts if each)
    if not left_out and not graph.is_partial:
        return ""
    reason = (
        "not every chain was followed to its end"
        if graph.is_partial
        else "the way from each job to what it waits for in the end is there"
    )
    are = "is" if left_out.startswith("1 ") else "are"
    return f"The graph is cut: {left_out or 'some jobs'} {are} left out; {reason}."


def _folds(drawn: DrawnGraph, shown: Shown) -> Iterator[Choice]:
    if shown.unfolded:
        yield Choice("fold", shown.with_unfolded())
    if any(box.group.is_fold for box in drawn.boxes):
        yield Choice("unfold all", shown.with_unfolded(ALL))
