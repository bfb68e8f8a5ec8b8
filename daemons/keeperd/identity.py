"""This keeperd and its machine.

Source: lease.md 2.
"""

import secrets
from pathlib import Path
from typing import Final, Self

import attrs

from common.system.processes import boot_id

_MACHINE_ID: Final = Path("/etc/machine-id")


@attrs.frozen
class KeeperIdentity:
    node: str
    # of this start of keeperd
    nonce: str
    boot_id: str
    # empty: the machine has none
    machine_id: str

    @classmethod
    def of(cls, node: str) -> Self:
        """Raises: OSError."""
        try:
            machine_id = _MACHINE_ID.read_text().strip()
        except FileNotFoundError:
            machine_id = ""
        return cls(node, secrets.token_hex(8), boot_id(), machine_id)
