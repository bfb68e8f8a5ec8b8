"""Parameters that Ganeti's opcodes have and ours refuse.

Source: opcodes.md 4.
"""

from common.errors import PrerequisiteError
from common.shapes import JsonObject


def refuse_states(hv_state: JsonObject | None, disk_state: JsonObject | None) -> None:
    """Refuse states of hypervisors and disks; empty ones, as Ganeti's clients send them, are none.

    Raises: PrerequisiteError.
    """
    for name, value in (("hv_state", hv_state), ("disk_state", disk_state)):
        if value:
            raise PrerequisiteError(f"'{name}' of a node cannot be set here; leave it out", "wrong_input")
