"""The keys in etcd of what wconfd commits, and the changes of its files as changes of keys.

Source: DESIGN section 14.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from common.errors import DamagedFile
from common.lease.dirty import Change, Written, decode_fate, encode_fate
from common.lease.keys import Keys
from daemons.wconfd.core.config.replicas.differences import Difference, difference
from daemons.wconfd.core.keptforms import FORMS
from daemons.wconfd.distribution import ConfigChange

# beside the names of objects: what is kept beside the file of the configuration
NOTE: Final = "note"


class ConfigKeys:
    """The keys of one cluster."""

    def __init__(self, keys: Keys) -> None:
        self.prefix = keys.config
        self.reservations = f"{keys.kept}tempres.data"
        self._kept = keys.kept
        # the serial number that every candidate has reached for which changes were forgotten, as text
        self.base = keys.config_base

    @property
    def prefixes(self) -> Sequence[str]:
        """The beginnings of all keys of wconfd."""
        return (self.prefix, self.reservations, self.base, *(f"{self._kept}{file}" for file in FORMS))

    def of_change(self, change: ConfigChange) -> Sequence[Change]:
        return self._changes(difference(change.before, change.after), change.note_before, change.note)

    def of_return(self, change: ConfigChange) -> Sequence[Change]:
        """What undoes a change."""
        return self._changes(difference(change.after, change.before), change.note, change.note_before)

    def of_difference(self, found: Difference) -> Sequence[Change]:
        return [Change(f"{self.prefix}{name}", encode_fate(fate)) for name, fate in found.items()]

    def of_base(self, serial_no: int) -> Change:
        return Change(self.base, b"%d" % serial_no)

    def of_reservations(self, content: bytes) -> Change:
        return Change(self.reservations, encode_fate(Written(content)))

    def of_rows(self, file: str, rows: Mapping[str, bytes | None]) -> Sequence[Change]:
        """Changes of rows of a file of ours. Args: rows: by key; None: it is gone."""
        start = self._rows(file)
        return [
            Change(f"{start}{key}", None if content is None else encode_fate(Written(content)))
            for key, content in rows.items()
        ]

    def of_file(self, file: str) -> Change:
        """Says that all rows of the file are kept."""
        return Change(f"{self._kept}{file}", encode_fate(Written(b"")))

    def rows_in(self, found: Mapping[str, bytes], file: str) -> Mapping[str, bytes] | None:
        """All rows of a file of ours, by key; None: they are not kept yet. Raises: DamagedFile."""
        if f"{self._kept}{file}" not in found:
            return None
        start = self._rows(file)
        keys = sorted(key for key in found if key.startswith(start))
        return {key[len(start) :]: content for key in keys if (content := self._written(found, key)) is not None}

    def _rows(self, file: str) -> str:
        return f"{self._kept}{file}/"

    def objects_in(self, found: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """The changed objects, by name."""
        start = len(self.prefix)
        return {
            key[start:]: value
            for key, value in found.items()
            if key.startswith(self.prefix) and key != f"{self.prefix}{NOTE}"
        }

    def note_in(self, found: Mapping[str, bytes]) -> bytes | None:
        """What is kept beside the file; None: no change of it is known."""
        return self._written(found, f"{self.prefix}{NOTE}")

    def reservations_in(self, found: Mapping[str, bytes]) -> bytes | None:
        """The content of the file; None: it was never changed under a lease."""
        return self._written(found, self.reservations)

    def base_in(self, found: Mapping[str, bytes]) -> int:
        """0: nothing was forgotten. Raises: DamagedFile."""
        value = found.get(self.base, b"0")
        if not value.isdigit():
            raise _foreign(self.base, value)
        return int(value)

    def _changes(self, found: Difference, note_before: bytes, note: bytes) -> Sequence[Change]:
        changes = self.of_difference(found)
        return (
            changes if note == note_before else [*changes, Change(f"{self.prefix}{NOTE}", encode_fate(Written(note)))]
        )

    @staticmethod
    def _written(found: Mapping[str, bytes], key: str) -> bytes | None:
        if key not in found:
            return None
        fate = decode_fate(key, found[key])
        if not isinstance(fate, Written):
            raise _foreign(key, found[key])
        return fate.content


def _foreign(key: str, value: bytes) -> DamagedFile:
    return DamagedFile(f"the key '{key}' of etcd has a value that is not ours: {value[:20]!r}; remove it", key=key)
