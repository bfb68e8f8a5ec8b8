"""What stands around every page."""

import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote, urlencode

import attrs

PLACES: Final = (
    ("Dashboard", "/ui"),
    ("Jobs", "/ui/jobs"),
    ("Schedules", "/ui/schedules"),
    ("Resources", "/ui/resources"),
    ("Nodes", "/ui/nodes"),
    ("Locks", "/ui/locks"),
    ("Filters", "/ui/filters"),
    ("Rates", "/ui/rates"),
    ("History", "/ui/history"),
)
THEMES: Final = ("auto", "light", "dark")


@attrs.frozen
class Choice:
    """A link beside others, of which one is where the visitor is."""

    text: str
    href: str
    is_here: bool = False


@attrs.frozen
class Act:
    """A change that a button begins."""

    href: str
    text: str
    is_grave: bool = False
    # whether it is for jobs that have ended; else for unfinished ones
    is_for_ended: bool = False


@attrs.frozen
class HealthLine:
    """The line about the cluster."""

    cluster: str
    master: str
    # "": there is none
    epoch: str
    # how far the candidates' copies are behind; "": nothing is copied
    copies: str
    lags: bool
    # what is wrong with etcd; "": nothing, or there is no lease
    etcd: str
    # dead owners whose locks are kept
    orphans: int
    is_drained: bool
    version: str


@attrs.frozen
class Silence:
    """luxid does not answer."""

    # seconds since the epoch
    since: float
    reason: str


@attrs.frozen
class Freshness:
    """How old what a page shows is."""

    # when it was read, in seconds since the epoch
    read_at: float
    # whether the page is told of changes as they come
    is_live: bool = False
    # None: luxid answers
    silence: Silence | None = None
    # seconds of the silence so far
    silent_s: float = 0.0


@attrs.frozen
class Frame:
    # path and query of the page
    here: str
    theme: str
    # protection against forged forms
    token: str
    # "": nobody said a name
    caller: str
    rights: str
    has_session: bool
    # None: the page does without
    health: HealthLine | None = None
    # address of the page's event stream; None: it has none
    stream: str | None = None
    # None: the page shows nothing that ages
    fresh: Freshness | None = None
    notice: str = ""

    @property
    def places(self) -> tuple[Choice, ...]:
        path = self.here.partition("?")[0]
        return tuple(
            Choice(text, href, path == href or (href != "/ui" and path.startswith(f"{href}/"))) for text, href in PLACES
        )


# Texts with links to the jobs, locks and rules that they name.


_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_JOB: Final = r"\bjob[/ ](?P<job>[1-9][0-9]{0,17})\b"


@attrs.frozen
class TextPart:
    """A part of a text."""

    text: str
    # None: it leads nowhere
    href: str | None = None
    # the whole of a text that was shortened; "": it was not
    whole: str = ""


def job_href(job_id: int) -> str:
    return f"/ui/jobs/{job_id}"


def lock_href(name: str) -> str:
    return f"/ui/locks?{urlencode({'lock': name})}"


def rule_href(uuid: str) -> str:
    return f"/ui/filters#rule-{quote(uuid)}"


def owner_href(owner: str) -> str | None:
    """Args: owner: as people read it: `job/14`, or the name of another owner."""
    number = owner.removeprefix("job/")
    return job_href(int(number)) if owner.startswith("job/") and number.isascii() and number.isdigit() else None


def linked(text: str, names: Mapping[str, str] | None = None) -> tuple[TextPart, ...]:
    """The text in parts, of which those that name a job lead to its page.

    Args: names: further names -> where they lead.
    """
    known = dict(names or {})
    # the longest first, as one name may begin with another
    others = [re.escape(name) for name in sorted(known, key=len, reverse=True) if name]
    pattern = re.compile("|".join([_JOB, *others]))
    pieces, at = [], 0
    for match in pattern.finditer(text):
        pieces.append(TextPart(text[at : match.start()]))
        href = job_href(int(match["job"])) if match["job"] else known[match[0]]
        pieces.append(TextPart(match[0], href))
        at = match.end()
    pieces.append(TextPart(text[at:]))
    return tuple(piece for piece in pieces if piece.text)


def shortened(pieces: tuple[TextPart, ...]) -> tuple[TextPart, ...]:
    """The pieces with the beginnings of UUIDs in place of those that lead somewhere."""
    return tuple(
        TextPart(f"{piece.text[:8]}…", piece.href, piece.text) if piece.href and _UUID.fullmatch(piece.text) else piece
        for piece in pieces
    )


def with_query(path: str, values: Iterable[tuple[str, object]]) -> str:
    """The path with those of the values that are not empty."""
    given = [(name, value) for name, value in values if value not in (None, "", False)]
    return f"{path}?{urlencode(given)}" if given else path
