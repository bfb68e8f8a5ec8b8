"""Which changes of parts are needed still: those that some key points to; no I/O.

Source: common/lease/packing.py.
"""

from collections.abc import Iterable, Sequence


class LiveParts:
    """The folders of parts of one daemon, and the keys that point into each."""

    def __init__(self) -> None:
        self._pointing: dict[str, set[str]] = {}
        # key -> folder, and revision of the pointer
        self._pointers: dict[str, tuple[str, int]] = {}
        self._garbage: list[str] = []

    def found(self, folder: str, pointers: Iterable[tuple[str, int]]) -> None:
        """These keys point into the folder, at these revisions; with none it is garbage."""
        self._pointing[folder] = set()
        for key, revision in pointers:
            self._pointing[folder].add(key)
            self._pointers[key] = (folder, revision)
        if not self._pointing[folder]:
            self._drop(folder)

    def replaced(self, keys: Iterable[str]) -> None:
        """These keys have been put or removed, and point nowhere now."""
        for key in keys:
            if key in self._pointers:
                self._unpoint(key)

    def forgotten(self, keys: Iterable[tuple[str, int]]) -> None:
        """These keys have been removed, those whose revisions were these."""
        for key, revision in keys:
            if key in self._pointers and self._pointers[key][1] == revision:
                self._unpoint(key)

    @property
    def has_garbage(self) -> bool:
        return bool(self._garbage)

    def take_garbage(self, most: int) -> Sequence[str]:
        """Return folders that nothing points to; each once."""
        taken, self._garbage = self._garbage[:most], self._garbage[most:]
        return taken

    def _unpoint(self, key: str) -> None:
        folder, _ = self._pointers.pop(key)
        self._pointing[folder].discard(key)
        if not self._pointing[folder]:
            self._drop(folder)

    def _drop(self, folder: str) -> None:
        del self._pointing[folder]
        self._garbage.append(folder)
