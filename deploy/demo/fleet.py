"""The fleet of the demo: a folder for each "node" with a configuration and data, and a store for backups."""

import hashlib
import random
from pathlib import Path

NODES = ("web1", "web2", "db1")
# node whose change fails
UNLUCKY = "db1"
_DATA_FILES = 4
_DATA_BYTES = 12 * 2**20


def build_fleet(folder: Path) -> None:
    """Make `folder/fleet/<node>/` with files and their checksums, and an empty `folder/store/`."""
    (folder / "store").mkdir(parents=True)
    for node in NODES:
        home = folder / "fleet" / node
        (home / "etc").mkdir(parents=True)
        (home / "srv").mkdir()
        (home / "etc" / "app.conf").write_text(f"name={node}\nversion=1\n")
        sums = [_write_data(home, number) for number in range(_DATA_FILES)]
        (home / "SHA256SUMS").write_text("".join(sums))


def _write_data(home: Path, number: int) -> str:
    name = f"srv/data{number}"
    # half noise, half text, so that packing takes time
    content = random.Random(f"{home.name}{number}").randbytes(_DATA_BYTES // 2) + b"row\n" * (_DATA_BYTES // 8)
    (home / name).write_bytes(content)
    return f"{hashlib.sha256(content).hexdigest()}  {name}\n"
