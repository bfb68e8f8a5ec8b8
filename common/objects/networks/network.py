"""A network: a range of addresses, and the reserved ones among them.

Source: wconfd.md 7.3 and 2.4 (pools).
"""

import ipaddress

import attrs

from common.objects.entity import Entity, own_first
from common.validation import Checked


def _not_empty(_: object, field: Checked, value: str) -> None:
    if not value:
        raise ValueError(f"expected a {field.name} that is not empty, got ''")


def _is_cidr(_: object, __: object, value: str) -> None:
    address, slash, length = value.partition("/")
    try:
        ipaddress.IPv4Address(address)
    except ValueError:
        slash = ""
    if not slash or not length.isdecimal() or int(length) > 32:
        raise ValueError(f"expected an IPv4 network such as '192.0.2.0/24', got {value!r}")


def _is_ipv4(_: object, __: object, value: str | None) -> None:
    if value is None:
        return
    try:
        ipaddress.IPv4Address(value)
    except ValueError:
        raise ValueError(f"expected an IPv4 address, got {value!r}") from None


def _is_pool(_: object, __: object, value: str | None) -> None:
    if value is not None and value.strip("01"):
        raise ValueError(f"expected a string of 0 and 1, got {value[:40]!r}")


@attrs.frozen(kw_only=True, field_transformer=own_first)
class Network(Entity):
    name: str = attrs.field(validator=_not_empty)
    mac_prefix: str | None = None
    network: str = attrs.field(validator=_is_cidr)
    network6: str | None = None
    gateway: str | None = attrs.field(default=None, validator=_is_ipv4)
    gateway6: str | None = None
    # one character for each address of the range, 1 if it is reserved: by an instance, or from outside
    reservations: str | None = attrs.field(default=None, validator=_is_pool)
    ext_reservations: str | None = attrs.field(default=None, validator=_is_pool)
