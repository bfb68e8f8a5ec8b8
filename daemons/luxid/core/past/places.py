"""Where an ended job lies, as the history notes it."""

import enum


class Place(enum.IntEnum):
    """The value is the index's."""

    LIVE = 0
    ARCHIVED = 1
    # its file was removed; the row is left
    REMOVED = 2
