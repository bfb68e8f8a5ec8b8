"""Whether an output is what the page says: equal but for times, durations, sizes, process ids and made-up names.

A page shows true values, such as `2026-11-23 03:12:04` or `1.2 s`, and any of the same kind will do. In a page's lines
`…` stands for any words, and `...` alone for any lines. A made-up name (an uuid, a batch, a token) may be another one
than in the page, but then it is so everywhere: later commands of the page that contain it are given the true one.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

ANY_WORDS: Final = "…"
ANY_LINES: Final = "..."
_DATE: Final = r"\d{4}-\d\d-\d\d"
_CLOCK: Final = r"\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?"
_DAY: Final = r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_AMOUNT: Final = r"\d+(?:\.\d+)?"
# name -> what it looks like; the first that fits counts
_KINDS: Final[Mapping[str, str]] = {
    "instant": rf"{_DAY} {_MONTH} +\d+ {_CLOCK} \d{{4}}|{_DATE}(?:[ T]{_CLOCK}(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?)?"
    rf"|(?<![\d:]){_CLOCK}(?![\d:])",
    "fingerprint": r"(?:[0-9A-F]{2}:){15,}[0-9A-F]{2}|SHA256:[\w+/=]+",
    "uuid": r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b",
    "token": r"\bgnt_[\w.-]+|\b[0-9a-f]{8,}(?:-[0-9a-f]{8,})+\b|\b(?=[\w-]*\d)(?=[\w-]*[A-Z])(?=[\w-]*[a-z])[\w-]{24,}",
    "name": r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{12,64}\b",
    # in tables of daemons their pids stand beside their states
    "process": r"\bpid[ =:]+\d+|\bprocess \d+|\bready +\d+",
    "duration": rf"\b(?:{_AMOUNT}(?:ms|µs|s|min|m|h|d))+\b|\b{_AMOUNT} (?:ms|µs|s|min|h|d)\b",
    "size": rf"\b{_AMOUNT} ?(?:[KMGT]i?B?|kB|B|bytes?)(?!\w)",
    "share": rf"\b{_AMOUNT} ?%",
}
# kinds of which equal values stay equal
_MADE_UP: Final = frozenset({"fingerprint", "uuid", "token", "name"})
_ANY_KIND: Final = re.compile("|".join(f"(?P<{name}>{looks})" for name, looks in _KINDS.items()))
_SPACES: Final = re.compile(r"(?<=\S)\s+")


@attrs.frozen
class Known:
    """Made-up names: as the page says them -> as they are in this run."""

    true: Mapping[str, str] = attrs.field(factory=dict)

    def in_this_run(self, text: str) -> str:
        """The text with the names of this run."""
        for said, seen in self.true.items():
            text = text.replace(said, seen)
        return text

    def as_in_page(self, text: str) -> str:
        """The text with the names that the page has for them."""
        for said, seen in self.true.items():
            text = text.replace(seen, said)
        return text

    def and_also(self, said: str, seen: str) -> "Known | None":
        """With the names in two lines of one shape; None: they contradict what is known."""
        pairs = dict(zip(_made_up(said), _made_up(seen), strict=True))
        if any(self.true.get(name, true) != true for name, true in pairs.items()):
            return None
        return Known({**self.true, **pairs})


def _made_up(line: str) -> list[str]:
    return [found[0] for found in _ANY_KIND.finditer(line) if found.lastgroup in _MADE_UP]


def shape(line: str) -> str:
    """The line with kinds in the place of values that may differ; columns are as wide as they like."""
    return _SPACES.sub(" ", _ANY_KIND.sub(lambda found: f"‹{found.lastgroup}›", line.rstrip())).rstrip()


def match_line(said: str, seen: str, known: Known) -> Known | None:
    """What is known afterwards; None: the line is not as the page says."""
    if ANY_WORDS in said:
        pattern = ".*".join(re.escape(part) for part in shape(said).split(ANY_WORDS))
        # a column that stands for anything may be narrower
        loose = pattern.replace(r"\ .*", ".*").replace(r".*\ ", ".*")
        return known if re.fullmatch(loose, shape(seen)) else None
    return known.and_also(said, seen) if shape(said) == shape(seen) else None


def match(said: Sequence[str], seen: Sequence[str], known: Known) -> Known | None:
    """The same of all lines."""
    if not said:
        return None if seen else known
    if said[0].strip() == ANY_LINES:
        tails = (match(said[1:], seen[place:], known) for place in range(len(seen) + 1))
        return next((after for after in tails if after is not None), None)
    if not seen or (after := match_line(said[0], seen[0], known)) is None:
        return None
    return match(said[1:], seen[1:], after)


def merged(said: Sequence[str], seen: Sequence[str], known: Known) -> tuple[str, ...]:
    """What the page should say: its own lines where they hold, else those that were seen, with the page's names."""
    if match(said, seen, known) is not None:
        return tuple(said)
    first = _common(said, seen, known)
    last = _common(said[first:][::-1], seen[first:][::-1], known)
    end_said, end_seen = len(said) - last, len(seen) - last
    return (*said[:first], *_alike(said[first:end_said], seen[first:end_seen], known), *said[end_said:])


def _common(said: Sequence[str], seen: Sequence[str], known: Known) -> int:
    """How many lines at the beginning hold."""
    pairs = enumerate(zip(said, seen, strict=False))
    return next(
        (place for place, pair in pairs if match_line(*pair, known) is None),
        min(len(said), len(seen)),
    )


def _alike(said: Sequence[str], seen: Sequence[str], known: Known) -> list[str]:
    """The lines seen, and where one of the page's holds, that one."""
    return [
        next((old for old in said if old.strip() != ANY_LINES and match_line(old, line, known)), known.as_in_page(line))
        for line in seen
    ]
