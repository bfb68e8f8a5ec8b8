"""The query string of a request.

Source: rapi.md 3.
"""

from collections.abc import Iterable
from typing import Self

import attrs

from common.errors import InvalidRequest


@attrs.frozen
class Arguments:
    """Parameters of the query string: one without a value is as none at all, of several the first counts."""

    _pairs: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> Self:
        return cls(tuple((name, value) for name, value in pairs if value))

    def __contains__(self, name: str) -> bool:
        return any(name == each for each, _ in self._pairs)

    def text(self, name: str) -> str | None:
        return next(iter(self.texts(name)), None)

    def texts(self, name: str) -> tuple[str, ...]:
        """All values of a parameter that may be repeated."""
        return tuple(value for each, value in self._pairs if each == name)

    def required(self, name: str) -> str:
        """Raises: InvalidRequest: it is missing."""
        value = self.text(name)
        if value is None:
            raise InvalidRequest(f"the query string lacks '{name}'; add '?{name}=VALUE'")
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Whether a number other than 0 is given. Raises: InvalidRequest: it is no whole number."""
        value = self.text(name)
        try:
            return default if value is None else int(value) != 0
        except ValueError:
            raise InvalidRequest(f"'{name}' in the query string must be 0 or 1, got {value!r:.60}") from None

    def words(self, name: str) -> tuple[str, ...] | None:
        """The parts of a list with commas, without blanks around them; None: the parameter is missing."""
        value = self.text(name)
        return None if value is None else tuple(part.strip() for part in value.split(","))
