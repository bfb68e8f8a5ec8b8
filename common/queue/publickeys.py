"""What everybody may see of an opcode in a job, whoever submitted it.

Source: DESIGN section 4, "Who is calling"; `daemons.luxid.core.queue.privacy`.
"""

from typing import Final

# keys of an opcode's input that everybody sees whole; besides, the program's name in `argv`
PUBLIC_KEYS: Final = (
    *("OP_ID", "dry_run", "debug_level", "priority", "depends", "comment", "reason"),
    *("locks", "user", "shell", "timeout", "node"),
)
ARGV: Final = "argv"
