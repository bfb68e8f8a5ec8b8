"""What a comparison of the master's queue with a node's has shown."""

from collections.abc import Iterable, Mapping
from typing import Final, Self

import attrs

from daemons.luxid.core.copies.backlog import Fact, Key

# names of files that are kept
MOST_NAMES: Final = 5


@attrs.frozen
class Verdict:
    # seconds since 1970
    at: float
    # number of files that differ
    count: int = 0
    # the first of them
    names: tuple[str, ...] = ()

    def with_more(self, keys: Iterable[Key]) -> Self:
        """These differ as well."""
        names = [name_of(key) for key in keys]
        return attrs.evolve(
            self, count=self.count + len(names), names=(*self.names, *names[: MOST_NAMES - len(self.names)])
        )

    @property
    def facts(self) -> Mapping[str, object]:
        """For a line of the log."""
        return {"differ": self.count} | ({"files": ",".join(self.names)} if self.names else {})


def name_of(key: Key) -> str:
    """The name of a file for users."""
    if isinstance(key, Fact):
        return key.value
    return key if isinstance(key, str) else f"job-{key}"
