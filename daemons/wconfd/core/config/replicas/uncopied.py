"""Which changes of the configuration in etcd some candidate may lack. Pure.

Theory. Each change has the serial number of the configuration that it led to. When all candidates have the file of a
serial number, the entries of changes up to it are not needed any more; one that was put again since has a later
revision, and a later serial number.

Source: DESIGN section 14.
"""

from collections.abc import Iterable, Mapping

import attrs


@attrs.frozen
class _Entry:
    # at which etcd has it
    revision: int
    # of the configuration with this change
    serial_no: int


class Uncopied:
    """The entries, by their keys."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, keys: Iterable[str], revision: int, serial_no: int) -> None:
        """Changes that were committed; each replaces an earlier one of the same key."""
        for key in keys:
            self._entries[key] = _Entry(revision, serial_no)

    def up_to(self, serial_no: int) -> Mapping[str, int]:
        """Keys and revisions of what every node has that has the file of this serial number. Cost: O(entries)."""
        return {key: entry.revision for key, entry in self._entries.items() if entry.serial_no <= serial_no}

    def forget(self, revisions: Mapping[str, int]) -> None:
        """These keys are gone, unless they were put again since."""
        for key, revision in revisions.items():
            entry = self._entries.get(key)
            if entry is not None and entry.revision == revision:
                del self._entries[key]
