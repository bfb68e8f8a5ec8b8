"""The options of parameters and policies that the cluster and its node groups have.

Source: opcodes.md 4, CLUSTER_SET_PARAMS and GROUP_SET_PARAMS; Ganeti's `gnt-group modify --help` (seen).
"""

from collections.abc import Mapping, Sequence
from typing import Final, cast

import click

from cli.options import ReadType, read_key_values
from common.wire import read_mebibytes

# Ranges of the sizes of instances, as they are written on a command line: `min:cpu-count=1,.../max:cpu-count=4,...`.
#
# Several ranges have `//` between them.
#
# Source: Ganeti's `gnt-group modify` (seen); wconfd.md 7.3.


Sizes = Mapping[str, int]

# what can be limited -> whether it is a size in MiB
_LIMITED: Final = {
    "memory-size": True,
    "disk-size": True,
    "disk-count": False,
    "cpu-count": False,
    "nic-count": False,
    "spindle-use": False,
}
_ENDS: Final = ("min", "max")


def parse_bounds(text: str) -> Sequence[Mapping[str, Sizes]]:
    """The ranges, each with the keys `min` and `max`. Raises: ValueError: with what is wrong, for the user."""
    return [_range(part) for part in text.split("//")]


def _range(text: str) -> Mapping[str, Sizes]:
    found: dict[str, Sizes] = {}
    for part in text.split("/"):
        end, _, values = part.partition(":")
        if end not in _ENDS or end in found:
            raise ValueError(f"'{part:.60}' is not one of min:... and max:..., with a / between them")
        found[end] = _sizes(end, values)
    if missing := [end for end in _ENDS if end not in found]:
        raise ValueError(f"'{text:.60}' has no part {missing[0]}:...")
    return found


def _sizes(end: str, text: str) -> Sizes:
    sizes: dict[str, int] = {}
    for pair in text.split(","):
        name, _, value = pair.partition("=")
        if name not in _LIMITED:
            raise ValueError(f"'{name}' of {end} cannot be limited; known are {', '.join(_LIMITED)}")
        sizes[name] = _number(name, value)
    if missing := [name for name in _LIMITED if name not in sizes]:
        raise ValueError(f"{end} lacks {', '.join(missing)}")
    return sizes


def _number(name: str, text: str) -> int:
    try:
        return read_mebibytes(text) if _LIMITED[name] else int(text)
    except ValueError:
        raise ValueError(f"'{name}={text}' is not a number") from None


# value that makes a part the cluster's again
DEFAULT: Final = "default"
Values = Mapping[str, str]


def _bounds(text: str) -> Sequence[Mapping[str, Sizes]] | str:
    """Ranges of sizes, or `default`."""
    return DEFAULT if text == DEFAULT else parse_bounds(text)


def _ratio(text: str) -> float | str:
    """A number from 0 on, or `default`."""
    if text == DEFAULT:
        return DEFAULT
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ValueError(f"'{text}' is neither a number from 0 on nor '{DEFAULT}'")
    return number


def of_type(metavar: str) -> ReadType[tuple[str, Values]]:
    """The type of `what:name=value,...`: values of one thing."""

    def read(text: str) -> tuple[str, Values]:
        what, _, pairs = text.partition(":")
        if not (what and pairs):
            raise ValueError(f"'{text}' is not of the form {metavar}")
        return what, read_key_values(pairs)

    return ReadType(read, metavar)


RATIO: Final = ReadType(_ratio, "NUMBER")


# Options whose values are parts of parameters, and the parameters that they make.


DISK_OPTION: Final = click.option(
    *("-D", "--disk-parameters", "diskparams"),
    type=of_type("TEMPLATE:NAME=VALUE,..."),
    multiple=True,
    help="Parameters of disks: drbd:resync-rate=2048.",
)
STATE_OPTIONS: Final = (
    click.option(
        *("--hypervisor-state", "hv_state"),
        type=of_type("HYPERVISOR:NAME=VALUE,..."),
        multiple=True,
        help="Kept, and not used yet.",
    ),
    click.option(
        *("--disk-state", "disk_state"),
        type=of_type("TYPE/NAME:NAME=VALUE,..."),
        multiple=True,
        help="Kept, and not used yet.",
    ),
)
BOUNDS_OPTION: Final = click.option(
    *("--ipolicy-bounds-specs", "bounds"),
    type=ReadType(_bounds, "min:.../max:..."),
    help="Least and greatest sizes of instances; several ranges with // between.",
)
RATIO_OPTIONS: Final = (
    click.option("--ipolicy-vcpu-ratio", "vcpu_ratio", type=RATIO, help="Virtual CPUs for each real one."),
    click.option("--ipolicy-spindle-ratio", "spindle_ratio", type=RATIO, help="Instances for each spindle."),
)
_POLICY_PARTS: Final = {
    "bounds": "minmax",
    "std": "std",
    "templates": "disk-templates",
    "vcpu_ratio": "vcpu-ratio",
    "spindle_ratio": "spindle-ratio",
}
# (what, its values), as `of_type` reads them
OfThings = Sequence[tuple[str, Values]]


def parameters_of(given: Mapping[str, object]) -> dict[str, object]:
    """The parameters of an opcode that these options make; those that are not given are null.

    Args: given: what the options above pass, and others, whose names are those of parameters.
    """
    values = dict(given)
    policy = {part: value for name, part in _POLICY_PARTS.items() if (value := values.pop(name, None)) is not None}
    values["ipolicy"] = policy or None
    for name in ("hvparams", "diskparams", "hv_state"):
        if name in values:
            values[name] = _merged(cast(OfThings, values[name])) or None
    values["disk_state"] = _by_storage(cast(OfThings, values["disk_state"])) or None
    return values


def _merged(given: OfThings) -> Mapping[str, Values]:
    found: dict[str, Values] = {}
    for what, values in given:
        found[what] = {**found.get(what, {}), **values}
    return found


def _by_storage(given: OfThings) -> Mapping[str, Mapping[str, Values]]:
    """`plain/xenvg` -> values, as storage type -> name -> values."""
    found: dict[str, dict[str, Values]] = {}
    for place, values in _merged(given).items():
        kind, _, name = place.partition("/")
        found.setdefault(kind, {})[name] = values
    return found
