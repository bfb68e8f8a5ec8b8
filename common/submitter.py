"""Who submitted a job: the first entry of a reason trail that our command line writes.

It is what the submitter says of itself: good for finding one's own jobs, not for allowing anything.
"""

from collections.abc import Iterable
from typing import Any, Final

from common.reasons import ReasonEntry

SOURCE: Final = "gantry:login"


def submitter_entry(name: str, at_ns: int) -> ReasonEntry:
    """The entry that names a user."""
    return ReasonEntry(SOURCE, name, at_ns)


def submitter(trail: Any) -> str:
    """The user whom a trail names, as it stands in a job file; "" if it names none."""
    for entry in trail if isinstance(trail, Iterable) else ():
        match entry:
            case [str() as source, str() as name, *_] if source == SOURCE:
                return name
    return ""
