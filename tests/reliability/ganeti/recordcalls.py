"""On a machine of a real Ganeti: carries out a script of calls, and prints each with its end as a line of JSON.

A line `< text` is standard input of the next call; `= config.data` keeps the configuration of that moment.
"""

import json
import shlex
import subprocess
import sys
from pathlib import Path

CONFIGURATION = Path("/var/lib/ganeti/config.data")


def main(path: Path) -> None:
    stdin = ""
    for line in path.read_text().splitlines():
        if line.startswith("< "):
            stdin = line[2:].encode().decode("unicode_escape")
        elif line == "= config.data":
            content = CONFIGURATION.read_text()
            print(json.dumps({"call": line, "stdin": "", "code": 0, "out": content, "err": ""}), flush=True)
        elif line and not line.startswith("#"):
            print(json.dumps(ended(line, stdin)), flush=True)
            stdin = ""


def ended(line: str, stdin: str) -> dict[str, object]:
    """How a call has ended, and what it has printed."""
    done = subprocess.run(shlex.split(line), input=stdin, capture_output=True, text=True, check=False)
    return {"call": line, "stdin": stdin, "code": done.returncode, "out": done.stdout, "err": done.stderr}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
