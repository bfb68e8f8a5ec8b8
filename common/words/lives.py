"""The life of an ended job, in words: its times, its tries, and the resources that it used."""

from collections.abc import Iterator

from common.words.fields import Row
from common.words.times import clock, duration, to_seconds


def life_lines(row: Row) -> Iterator[str]:
    """A line for the times, for each failed try but the last one, and for the resources.

    Args: row: with `uses`, `tries`, and the instants.
    """
    yield from _times(row)
    for tries in row["tries"] or ():
        for each in tries:
            took = _took(each.get("start"), each.get("end"))
            yield f"try {each.get('n')}{took} {each.get('why')}"
    if uses := row["uses"]:
        yield f"used {', '.join(f'{count} of {key!r}' for key, count in uses.items())}"


def _times(row: Row) -> Iterator[str]:
    received, begin, start, end = (
        to_seconds(stamp) for stamp in (row["received_ts"], row["begin_ts"], row["start_ts"], row["end_ts"])
    )
    parts = [] if received is None else [f"submitted at {clock(received)}"]
    if begin is not None:
        parts.append(f"not to begin before {clock(begin)}")
    if start is None:
        parts.append("never begun")
    else:
        parts.append(f"begun at {clock(start)}")
        parts += [] if end is None else [f"ran {duration(end - start)}"]
    yield ", ".join(parts)


def _took(start: object, end: object) -> str:
    return f" took {duration(end - start)}:" if isinstance(start, int | float) and isinstance(end, int | float) else ":"
