"""Changing the parameters of disks, which each disk template has its own of. Pure.

Source: Ganeti's `gnt-group info` (seen); wconfd.md 7.3.
"""

from collections.abc import Mapping
from typing import Final

from common.errors import PrerequisiteError
from common.objects.entity import Params
from common.objects.kinds import DiskTemplate
from daemons.jobproc.units.values.readers import Reader, changed, changes_of, text, truth, whole

_READERS: Final[Mapping[DiskTemplate, Mapping[str, Reader]]] = {
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
        changes = changes_of(values, _READERS.get(template, {}), f"disk parameter of '{template.value}'")
        _check_words(changes)
        after[template] = changed(before.get(template, {}), changes)
    return after


def _check_words(changes: Params) -> None:
    for name, words in _WORDS.items():
        if changes.get(name, words[0]) not in (*words, None):
            raise PrerequisiteError(f"'{name}' must be {' or '.join(words)}, got {changes[name]!r:.60}", "wrong_input")
