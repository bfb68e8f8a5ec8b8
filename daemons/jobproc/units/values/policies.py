"""Changing the instance policy of a group. Pure.

Source: wconfd.md 7.3, "Parameter groups"; Ganeti's `gnt-group modify` (seen).
"""

from collections.abc import Mapping
from typing import Final

import attrs

from common.errors import InvalidRequest, PrerequisiteError
from common.objects.codec import decode_object, to_json
from common.objects.ipolicy import Ispec, MinMax, PartialIpolicy
from daemons.jobproc.units.values.readers import DEFAULT

_KNOWN: Final = ("minmax", "disk-templates", "vcpu-ratio", "spindle-ratio")
_RATIOS: Final = ("vcpu_ratio", "spindle_ratio")


def changed_group_policy(before: PartialIpolicy, given: Mapping[str, object]) -> PartialIpolicy:
    """The group's own policy with these changes; 'default' makes a part the cluster's again.

    Raises: PrerequisiteError: an unknown part, a wrong value, or sizes of which the least exceeds the most.
    """
    if not given:
        # a policy that was set elsewhere is not judged
        return before
    parts = to_json(before)
    for name, value in given.items():
        if name not in _KNOWN:
            raise PrerequisiteError(
                f"the instance policy of a group has no part '{name:.40}'; known are {', '.join(_KNOWN)}", "wrong_input"
            )
        if value in (DEFAULT, [DEFAULT]):
            parts.pop(name, None)
        else:
            parts[name] = value
    try:
        after = decode_object(parts, PartialIpolicy, "instance policy")
    except InvalidRequest as error:
        raise PrerequisiteError(error.message, "wrong_input") from error
    _check(after)
    return after


def _check(policy: PartialIpolicy) -> None:
    if policy.minmax is not None and not policy.minmax:
        raise PrerequisiteError("an instance policy needs a range of sizes, or 'default'", "wrong_input")
    for sizes in policy.minmax or ():
        _check_range(sizes)
    if policy.disk_templates is not None and not policy.disk_templates:
        raise PrerequisiteError("an instance policy needs a disk template, or 'default'", "wrong_input")
    for name in _RATIOS:
        value = getattr(policy, name)
        if value is not None and not 0 <= value < float("inf"):
            raise PrerequisiteError(
                f"'{name.replace('_', '-')}' must be a number from 0 on, got {value}", "wrong_input"
            )


def _check_range(sizes: MinMax) -> None:
    for field in attrs.fields(Ispec):
        least, most = getattr(sizes.min, field.name), getattr(sizes.max, field.name)
        if not 0 <= least <= most:
            raise PrerequisiteError(
                f"instances cannot have a '{field.name.replace('_', '-')}' from {least} to {most}", "wrong_input"
            )
