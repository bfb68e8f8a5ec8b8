"""What a validator of an attrs class is told of the field that it checks."""

from typing import Protocol


class Checked(Protocol):
    """The field whose value is checked; fields of any type are."""

    @property
    def name(self) -> str: ...
