"""Results of opcodes that were ended from outside, as luxid and the job process write them.

Source: luxid.md 4.4, 5.8.
"""

from typing import Final

from common.errors import ExecutionError

CANCELED_TEXT: Final = "job was canceled on request"
KILLED_TEXT: Final = "job was killed on request"
# result of the opcodes after a failed one
PRECEDING_FAILED: Final = [ExecutionError.wire_name, ["preceding opcode failed"]]
