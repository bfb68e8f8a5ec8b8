"""The ids that all parts share, and numbers as people write them."""

from typing import NewType

# The id of a job: counted from 1, never used twice
JobId = NewType("JobId", int)


def read_number(text: str) -> int | None:
    """The whole number that a text of at most 18 digits writes; None: it writes none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None
