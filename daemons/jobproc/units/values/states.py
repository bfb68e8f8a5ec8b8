"""Changing the static states of hypervisors and of disks, which are kept and, as in Ganeti, not used. Pure.

Source: Ganeti's `gnt-group modify` (seen).
"""

from collections.abc import Collection, Mapping
from typing import Final

from common.errors import PrerequisiteError
from common.objects.entity import Params
from common.objects.kinds import Hypervisor
from daemons.jobproc.units.values.readers import Reader, changed, changes_of, whole

_OF_HYPERVISORS: Final[Mapping[str, Reader]] = dict.fromkeys(
    ("mem_total", "mem_node", "mem_hv", "cpu_total", "cpu_node"), whole
)
_OF_DISKS: Final[Mapping[str, Reader]] = dict.fromkeys(("disk_total", "disk_reserved", "disk_overhead"), whole)
# storage types that have a state
_STORAGE: Final = ("plain",)


def changed_hv_state(before: Params, given: Params) -> Params:
    """The state by hypervisor, with these changes. Raises: PrerequisiteError."""
    _check_keys(given, [each.value for each in Hypervisor], "hypervisor")
    return {**before, **_changed_each(before, given, _OF_HYPERVISORS, "state of a hypervisor")}


def changed_disk_state(before: Params, given: Params) -> Params:
    """The state by storage type and name, with these changes. Raises: PrerequisiteError."""
    _check_keys(given, _STORAGE, "storage type with a state")
    changes = {
        kind: {**_object(before.get(kind)), **_changed_each(_object(before.get(kind)), _object(names), _OF_DISKS, what)}
        for kind, names in given.items()
        for what in [f"state of '{kind}'"]
    }
    return {**before, **changes}


def _changed_each(before: Params, given: Params, readers: Mapping[str, Reader], what: str) -> dict[str, object]:
    return {
        name: changed(_object(before.get(name)), changes_of(_object(values), readers, what))
        for name, values in given.items()
    }


def _check_keys(given: Params, known: Collection[str], what: str) -> None:
    for name in given:
        if name not in known:
            raise PrerequisiteError(f"there is no {what} '{name:.40}'; known are {', '.join(known)}", "wrong_input")


def _object(value: object) -> Params:
    """Raises: PrerequisiteError: the value is no object."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise PrerequisiteError(f"a state is written as an object, not as {value!r:.60}", "wrong_input")
    return value
