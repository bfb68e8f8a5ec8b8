"""Instance policies: the sizes that instances may have. In JSON the keys have hyphens.

Source: wconfd.md 7.3, "Parameter groups".
"""

import attrs
from attrs.converters import optional

from common.objects.kinds import DiskTemplate
from common.objects.numbers import plain


@attrs.frozen(kw_only=True)
class Ispec:
    """A size of an instance; memory and disk in MiB."""

    memory_size: int
    disk_size: int
    disk_count: int
    cpu_count: int
    nic_count: int
    spindle_use: int


@attrs.frozen(kw_only=True)
class PartialIspec:
    memory_size: int | None = None
    disk_size: int | None = None
    disk_count: int | None = None
    cpu_count: int | None = None
    nic_count: int | None = None
    spindle_use: int | None = None


@attrs.frozen(kw_only=True)
class MinMax:
    """One range of allowed sizes."""

    min: Ispec
    max: Ispec


@attrs.frozen(kw_only=True)
class Ipolicy:
    """The policy of the cluster."""

    # ranges of sizes; an instance must lie in one of them
    minmax: tuple[MinMax, ...]
    std: Ispec
    spindle_ratio: float = attrs.field(converter=plain)
    vcpu_ratio: float = attrs.field(converter=plain)
    disk_templates: tuple[DiskTemplate, ...]


@attrs.frozen(kw_only=True)
class PartialIpolicy:
    """The policy of a group; missing values are the cluster's."""

    minmax: tuple[MinMax, ...] | None = None
    std: PartialIspec | None = None
    spindle_ratio: float | None = attrs.field(default=None, converter=optional(plain))
    vcpu_ratio: float | None = attrs.field(default=None, converter=optional(plain))
    disk_templates: tuple[DiskTemplate, ...] | None = None
