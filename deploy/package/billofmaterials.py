"""The bill of materials: each package of the environment with its version, licence and origin, as CycloneDX."""

import json
import subprocess
from pathlib import Path
from typing import Any, Final

# part of what pip records nowhere, and no scanner needs
_OF_THE_BUILD: Final = ("serialNumber",)


def write_bill(place: Path, environment: Path, program: Path) -> None:
    """Write the bill of an environment. Args: program: cyclonedx-py."""
    words = ["environment", "--output-reproducible", "--of", "JSON", "--output-file", "-"]
    done = subprocess.run([program, *words, environment / "bin/python3"], capture_output=True, text=True, check=True)
    bill: dict[str, Any] = json.loads(done.stdout)
    for key in _OF_THE_BUILD:
        bill.pop(key, None)
    place.write_text(json.dumps(bill, indent=1, sort_keys=True) + "\n")
