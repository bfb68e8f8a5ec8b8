"""Changing the parameters of nodes, of one node or of a group's. Pure.

Source: wconfd.md 7.3, "Parameter groups"; cli.md.
"""

from collections.abc import Mapping
from typing import Final

import attrs

from common.errors import PrerequisiteError
from common.objects.params import PartialNdParams
from daemons.jobproc.units.values.readers import Reader, changes_of, number, text, truth, whole

# parameter that all nodes of a group have in common
_OF_GROUPS: Final = "exclusive_storage"


def changed_parameters(before: PartialNdParams, given: Mapping[str, object]) -> PartialNdParams:
    """The node's own parameters with these changes.

    Raises: PrerequisiteError: an unknown name, a wrong value, or a parameter of the whole cluster.
    """
    if _OF_GROUPS in given:
        raise PrerequisiteError(f"'{_OF_GROUPS}' is for whole groups or the cluster, not for one node", "wrong_input")
    return _changed(before, given, {name: read for name, read in _READERS.items() if name != _OF_GROUPS})


def changed_group_parameters(before: PartialNdParams, given: Mapping[str, object]) -> PartialNdParams:
    """The same for a group's own parameters of its nodes."""
    return _changed(before, given, _READERS)


def _changed(before: PartialNdParams, given: Mapping[str, object], readers: Mapping[str, Reader]) -> PartialNdParams:
    changes = changes_of(given, readers, "node parameter")
    return attrs.evolve(before, **changes)  # type: ignore[arg-type]  # the readers give the types of the fields


_READERS: Final[Mapping[str, Reader]] = {
    "oob_program": text,
    "spindle_count": whole,
    _OF_GROUPS: truth,
    "ovs": truth,
    "ovs_name": text,
    "ovs_link": text,
    "ssh_port": whole,
    "cpu_speed": number,
}
