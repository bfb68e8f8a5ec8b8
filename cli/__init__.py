"""The command line: one module a command group; prints, never decides."""

import signal
import sys

if sys.argv[0].rpartition("/")[2].startswith(("gantry", "gnt-")) and (
    signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    # until `cli.program.run` an interrupt just ends one of our programs, and shows no traceback of what it was loading
    signal.signal(signal.SIGINT, signal.SIG_DFL)
