"""The parameters of query strings in words, for the document.

Source: rapi.md 3, 6, 7.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from daemons.rapid.calls import Parameter

_FLAGS: Final = {
    "allocatable": "Whether the storage unit takes new volumes.",
    "auto-promote": "Whether other nodes may become master candidates.",
    "bulk": "Whether to tell all about each, not only names.",
    "dry-run": "Whether only to check.",
    "force": "Whether to do it in spite of warnings.",
    "ignore_secondaries": "Whether secondary nodes that are away do not matter.",
    "ignore_size": "Whether recorded sizes of disks do not matter.",
    "live": "Whether instances go on running, as old clients say it.",
    "lock": "Must be 0: queries take no locks.",
    "no_remember": "Whether the cluster forgets that the instance is to be so.",
    "nostartup": "Whether the instance is not started again, as old clients say it.",
    "static": "Whether to ask no node.",
}
_TEXTS: Final = {
    "disks": "Indices of disks, with commas between them.",
    "fields": "Names of fields, with commas between them.",
    "iallocator": "Name of the allocator.",
    "mode": "The way in which it is done.",
    "name": "Name of the storage unit.",
    "os": "Name of the operating system, as old clients say it.",
    "output_fields": "Names of fields, with commas between them.",
    "reason": "Why; it is put into the reason trail.",
    "remote_node": "Name of the new secondary node.",
    "storage_type": "Kind of storage.",
    "tag": "A tag; it may be given several times.",
    "type": "Kind of restart: soft, hard or full.",
}


def described(parameters: Mapping[str, bool] | Iterable[str]) -> tuple[Parameter, ...]:
    """The parameters for the document. Args: parameters: names, or names with whether they must be given."""
    needed = parameters if isinstance(parameters, Mapping) else dict.fromkeys(parameters, False)
    return tuple(_described(name, is_required=is_required) for name, is_required in needed.items())


def _described(name: str, *, is_required: bool) -> Parameter:
    if name in _FLAGS:
        return Parameter(name, _FLAGS[name], {"type": "integer", "enum": [0, 1], "default": 0}, is_required=is_required)
    return Parameter(name, _TEXTS[name], is_required=is_required)
