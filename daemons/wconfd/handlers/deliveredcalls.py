"""Calls whose second delivery is recognized by their content.

Source: wconfd.md 2.3.
"""

from collections.abc import Mapping

from daemons.wconfd.core.config.deliveries import Delivery
from protocol.messages import AnyRequest, reply_to_wire


def delivery_of(call: AnyRequest) -> Delivery:
    """Args: call: one with the serial numbers of what it changes, so that equal calls want one change."""
    value = reply_to_wire(call)
    assert isinstance(value, Mapping)
    return Delivery.of(value)
