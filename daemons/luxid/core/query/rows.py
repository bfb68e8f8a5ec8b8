"""What the fields of nodes, groups, networks and instances are read from."""

from collections.abc import Iterable
from typing import Generic, TypeVar

import attrs

from common.objects.index import ConfigIndex

O = TypeVar("O")  # noqa: E741  # an object
O_co = TypeVar("O_co", covariant=True)


@attrs.frozen(eq=False)
class Row(Generic[O_co]):
    """An object, and the configuration it is read in."""

    object: O_co
    config: ConfigIndex


def rows_of(objects: Iterable[O], config: ConfigIndex) -> list[Row[O]]:
    return [Row(each, config) for each in objects]
