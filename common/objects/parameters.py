"""Changes of parameters, which objects inherit from one another: of nodes, instances, disks, hypervisors. Pure.

Values come as JSON, or as text from a command line. The class of a group of parameters, or the table of its default
values, tells their names and types.

Source: wconfd.md 7.3, "Parameter groups"; cli.md; Ganeti's `gnt-group info` and `gnt-group modify` (seen).
"""

from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Final

import attrs

from common.errors import wrong_input
from common.objects.config import NdParams, Params, PartialNdParams
from common.objects.hypervisordefaults import DEFAULTS
from common.objects.kinds import DiskTemplate, Hypervisor, Mebibytes
from common.wire import read_mebibytes

# value that ends a parameter of one's own, so that the inherited one is in force
DEFAULT: Final = "default"
_TRUE: Final = ("true", "yes", "1")
_FALSE: Final = ("false", "no", "0")

# function: given value -> value; raises TypeError or ValueError
Reader = Callable[[object], object]


def changes_of(given: Mapping[str, object], readers: Mapping[str, Reader], what: str) -> dict[str, object]:
    """The given values by their parameters; None: the parameter is to be the inherited one.

    Args:
        readers: by the names of the known parameters.
        what: kind of parameters, for errors.
    Raises: PrerequisiteError: an unknown name or a wrong value.
    """
    changes: dict[str, object] = {}
    for name, value in given.items():
        read = readers.get(name)
        if read is None:
            known = f"known are {', '.join(readers)}" if readers else "there are none"
            raise wrong_input(f"there is no {what} '{name:.40}'; {known}")
        changes[name] = None if value == DEFAULT else _read(read, name, value, what)
    return changes


def changed(before: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    """Own parameters after these changes."""
    return {name: value for name, value in {**before, **changes}.items() if value is not None}


def _read(read: Reader, name: str, value: object, what: str) -> object:
    try:
        return read(value)
    except (TypeError, ValueError):
        raise wrong_input(f"the {what} '{name}' cannot be {value!r:.60}: {_EXPECTED[read]} is expected") from None


def text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise TypeError


def whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError
    return int(value)


def number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    read = float(value)
    if not 0 <= read < float("inf"):
        raise ValueError
    return read


def mebibytes(value: object) -> int:
    return read_mebibytes(value)


def truth(value: object) -> bool:
    if isinstance(value, bool):
        return value
    word = text(value).lower()
    if word not in (*_TRUE, *_FALSE):
        raise ValueError
    return word in _TRUE


_EXPECTED: Final[Mapping[Reader, str]] = {
    text: "text",
    whole: "a whole number",
    truth: "true or false",
    number: "a number from 0 on",
    mebibytes: "a size in MiB, or with a unit such as '2g',",
}


# Parameters of nodes.


_READERS: Final[Mapping[object, Reader]] = {str: text, int: whole, bool: truth, float: number, Mebibytes: mebibytes}
# parameter that all nodes of a group have in common
_OF_GROUPS: Final = "exclusive_storage"


@cache
def readers_of(kind: type[attrs.AttrsInstance]) -> Mapping[str, Reader]:
    """The readers of the parameters in a class that has all of them, as `NdParams`."""
    return {field.name: _READERS[field.type] for field in attrs.fields(kind)}


def changed_node_parameters(before: PartialNdParams, given: Mapping[str, object]) -> PartialNdParams:
    """A node's own parameters with these changes.

    Raises: PrerequisiteError: an unknown name, a wrong value, or a parameter of a group or the whole cluster.
    """
    if _OF_GROUPS in given:
        raise wrong_input(f"'{_OF_GROUPS}' is for whole groups or the cluster, not for one node")
    known = {name: read for name, read in readers_of(NdParams).items() if name != _OF_GROUPS}
    return _evolved(before, changes_of(given, known, "node parameter"))


def changed_group_parameters(before: PartialNdParams, given: Mapping[str, object]) -> PartialNdParams:
    """The same for a group's own parameters of its nodes."""
    return _evolved(before, changes_of(given, readers_of(NdParams), "node parameter"))


def _evolved(before: PartialNdParams, changes: Mapping[str, object]) -> PartialNdParams:
    return PartialNdParams(**attrs.asdict(before, recurse=False) | dict(changes))


# Parameters of disks, which each disk template has its own of.


_OF_TEMPLATES: Final[Mapping[DiskTemplate, Mapping[str, Reader]]] = {
    DiskTemplate.DRBD: {
        "resync-rate": whole,
        "data-stripes": whole,
        "meta-stripes": whole,
        "disk-barriers": text,
        "meta-barriers": truth,
        "metavg": text,
        "disk-custom": text,
        "net-custom": text,
        "protocol": text,
        "dynamic-resync": truth,
        "c-plan-ahead": whole,
        "c-fill-target": whole,
        "c-delay-target": whole,
        "c-max-rate": whole,
        "c-min-rate": whole,
    },
    DiskTemplate.PLAIN: {"stripes": whole},
    DiskTemplate.RBD: {"pool": text, "access": text},
    DiskTemplate.EXT: {"access": text},
    DiskTemplate.GLUSTER: {"access": text, "host": text, "port": whole, "volume": text},
}


# parameter with few words -> these words
_WORDS: Final = {"access": ("userspace", "kernelspace")}


def changed_disk_parameters(
    before: Mapping[DiskTemplate, Params], given: Mapping[DiskTemplate, Params]
) -> Mapping[DiskTemplate, Params]:
    """Own parameters with these changes, by disk template.

    Raises: PrerequisiteError: an unknown name or a wrong value.
    """
    after = dict(before)
    for template, values in given.items():
        changes = changes_of(values, _OF_TEMPLATES.get(template, {}), f"disk parameter of '{template.value}'")
        _check_words(changes)
        after[template] = changed(before.get(template, {}), changes)
    return after


def _check_words(changes: Params) -> None:
    for name, words in _WORDS.items():
        if changes.get(name, words[0]) not in (*words, None):
            raise wrong_input(f"'{name}' must be {' or '.join(words)}, got {changes[name]!r:.60}")


# The static states of hypervisors and of disks, which are kept and, as in Ganeti, not used.


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
            raise wrong_input(f"there is no {what} '{name:.40}'; known are {', '.join(known)}")


def _object(value: object) -> Params:
    """Raises: PrerequisiteError: the value is no object."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise wrong_input(f"a state is written as an object, not as {value!r:.60}")
    return value


# Parameters of hypervisors.


def changed_hypervisor_parameters(
    hypervisor: Hypervisor, before: Params, given: Params, *, is_full: bool = True
) -> Params:
    """The parameters with these changes.

    Args: is_full: whether 'default' means Ganeti's value, and not that there is no own one.
    Raises: PrerequisiteError: an unknown name or a wrong value.
    """
    known = DEFAULTS[hypervisor]
    readers = {name: _READERS[type(value)] for name, value in known.items()}
    after = {**(known if is_full and not before else {}), **before}
    for name, value in changes_of(given, readers, f"parameter of hypervisor '{hypervisor.value}'").items():
        if value is not None:
            after[name] = value
        elif is_full:
            after[name] = known[name]
        else:
            after.pop(name, None)
    return after
