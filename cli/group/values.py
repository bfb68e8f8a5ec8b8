"""The options that set policies and parameters of a node group.

Source: opcodes.md 4, GROUP_ADD and GROUP_SET_PARAMS; Ganeti's `gnt-group modify --help` (seen).
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypedDict

import click

from cli.options import KEY_VALUES, F, with_options
from cli.submitting.options import SubmitOptions
from common.objects.kinds import AllocPolicy, DiskTemplate
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
_DEFAULT: Final = "default"
Values = Mapping[str, str]


class BoundsType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """Ranges of sizes, or `default`."""

    name = "bounds"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Sequence[Mapping[str, Sizes]] | str:
        text = str(value)
        try:
            return _DEFAULT if text == _DEFAULT else parse_bounds(text)
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "min:.../max:..."


class RatioType(click.ParamType):  # type: ignore[type-arg]  # as above
    """A number from 0 on, or `default`."""

    name = "ratio"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        if value == _DEFAULT:
            return _DEFAULT
        try:
            number = float(str(value))
        except ValueError:
            number = -1.0
        if not 0 <= number < float("inf"):
            self.fail(f"'{value}' is neither a number from 0 on nor '{_DEFAULT}'", param, ctx)
        return number

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "NUMBER"


class OfType(click.ParamType):  # type: ignore[type-arg]  # as above
    """`what:name=value,...`: values of one thing."""

    name = "what:name=value,..."

    def __init__(self, metavar: str) -> None:
        self._metavar = metavar

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Values]:
        if isinstance(value, tuple):
            return value
        what, _, pairs = str(value).partition(":")
        if not (what and pairs):
            self.fail(f"'{value}' is not of the form {self._metavar}", param, ctx)
        return what, KEY_VALUES.convert(pairs, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return self._metavar


class GroupValues(TypedDict):
    """What `group_options` pass to a verb."""

    alloc_policy: str | None
    ndparams: Values | None
    diskparams: Sequence[tuple[str, Values]]
    hv_state: Sequence[tuple[str, Values]]
    disk_state: Sequence[tuple[str, Values]]
    bounds: Sequence[Mapping[str, Sizes]] | str | None
    templates: str | None
    vcpu_ratio: float | str | None
    spindle_ratio: float | str | None


class GroupOptions(GroupValues, SubmitOptions):
    """What `group_options` and `submit_options` pass to a verb."""


def group_options(function: F) -> F:
    """The options of `GroupValues`."""
    policies = [each.value for each in AllocPolicy]
    of_template, of_hypervisor = OfType("TEMPLATE:NAME=VALUE,..."), OfType("HYPERVISOR:NAME=VALUE,...")
    of_storage = OfType("TYPE/NAME:NAME=VALUE,...")
    return with_options(
        function,
        click.option("--alloc-policy", type=click.Choice(policies), help="Whether new instances may be placed here."),
        click.option("--node-parameters", "ndparams", type=KEY_VALUES, help="Parameters of its nodes: ssh_port=2222."),
        click.option(
            *("-D", "--disk-parameters", "diskparams"),
            type=of_template,
            multiple=True,
            help="Parameters of disks: drbd:resync-rate=2048.",
        ),
        click.option(
            "--ipolicy-bounds-specs",
            "bounds",
            type=BoundsType(),
            help="Least and greatest sizes of instances; several ranges with // between.",
        ),
        click.option(
            "--ipolicy-disk-templates", "templates", metavar="TEMPLATE,...", help="Disk templates of instances."
        ),
        click.option("--ipolicy-vcpu-ratio", "vcpu_ratio", type=RatioType(), help="Virtual CPUs for each real one."),
        click.option("--ipolicy-spindle-ratio", "spindle_ratio", type=RatioType(), help="Instances for each spindle."),
        click.option(
            "--hypervisor-state", "hv_state", type=of_hypervisor, multiple=True, help="Kept, and not used yet."
        ),
        click.option("--disk-state", "disk_state", type=of_storage, multiple=True, help="Kept, and not used yet."),
    )


def submission(given: GroupOptions) -> SubmitOptions:
    """The options of the submission alone."""
    return {
        "priority": given["priority"],
        "reason": given["reason"],
        "is_dry": given["is_dry"],
        "is_waiting": given["is_waiting"],
        "is_ganeti_form": given["is_ganeti_form"],
        "prints_ids": given["prints_ids"],
        "job_name": given["job_name"],
        "job_labels": given["job_labels"],
        "key": given["key"],
    }


def op_values(given: GroupValues) -> dict[str, object]:
    """The parameters of the opcode; those that are not given are null.

    Raises: click.UsageError: a disk template is unknown.
    """
    values: dict[str, object] = {
        "alloc_policy": given["alloc_policy"],
        "ndparams": given["ndparams"],
        "diskparams": _by_template(given["diskparams"]),
        "ipolicy": _policy(given) or None,
        "hv_state": _merged(given["hv_state"]) or None,
        "disk_state": _by_storage(given["disk_state"]) or None,
    }
    return values


def _policy(given: GroupValues) -> Mapping[str, object]:
    text = given["templates"]
    parts = {
        "minmax": given["bounds"],
        "disk-templates": None if text is None else text if text == _DEFAULT else text.split(","),
        "vcpu-ratio": given["vcpu_ratio"],
        "spindle-ratio": given["spindle_ratio"],
    }
    return {name: value for name, value in parts.items() if value is not None}


def _by_template(given: Sequence[tuple[str, Values]]) -> Mapping[str, Values] | None:
    known = [each.value for each in DiskTemplate]
    for name, _ in given:
        if name not in known:
            raise click.UsageError(f"there is no disk template '{name:.40}'; known are {', '.join(known)}")
    return _merged(given) or None


def _by_storage(given: Sequence[tuple[str, Values]]) -> Mapping[str, Mapping[str, Values]]:
    """`plain/xenvg` -> values, as storage type -> name -> values."""
    found: dict[str, dict[str, Values]] = {}
    for place, values in _merged(given).items():
        kind, _, name = place.partition("/")
        found.setdefault(kind, {})[name] = values
    return found


def _merged(given: Sequence[tuple[str, Values]]) -> Mapping[str, Values]:
    found: dict[str, Values] = {}
    for what, values in given:
        found[what] = {**found.get(what, {}), **values}
    return found
