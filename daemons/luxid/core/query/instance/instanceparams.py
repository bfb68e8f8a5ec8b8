"""The parameters of an instance, with those of its operating system and the cluster where it sets none.

Source: luxid.md 7.6, "instance".
"""

from typing import Final

from common.objects.instance import AnyInstance
from common.objects.params import BeParams, filled
from daemons.luxid.core.query.instance.hvfields import NAMES
from daemons.luxid.core.query.rows import Row

_Row = Row[AnyInstance]
_HV_NAMES: Final = frozenset(NAMES)


def be_params(row: _Row) -> BeParams:
    return filled(row.config.config.cluster.beparams["default"], row.object.beparams)


def hv_params(row: _Row) -> dict[str, object]:
    """What an instance may set, with the values of the operating system and the cluster where it does not."""
    instance, cluster = row.object, row.config.config.cluster
    if instance.hypervisor is None:
        return dict(instance.hvparams)
    of_system = cluster.os_hvp.get(instance.os or "", {}).get(instance.hypervisor, {})
    every = {**cluster.hvparams.get(instance.hypervisor, {}), **of_system, **instance.hvparams}
    return {name: value for name, value in every.items() if name in _HV_NAMES}


def os_params(row: _Row) -> dict[str, str]:
    """Those of the operating system, then of its variant, then the instance's own; secret ones are not shown."""
    name, params = row.object.os or "", row.config.config.cluster.osparams
    return {**params.get(name.partition("+")[0], {}), **params.get(name, {}), **row.object.osparams}
