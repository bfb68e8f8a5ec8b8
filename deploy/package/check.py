"""make deb-check: build the last commit twice, in unlike surroundings, and tell each difference of the packages.

The second build is from a clone in another folder, in another zone, language and umask.
"""

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[2]
_UNLIKE: Final = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONHASHSEED": "7"}


def main() -> int:
    if _git("status", "--porcelain", "--untracked-files=no"):
        print(
            "error: files differ from the last commit, and only commits can be built twice; commit them",
            file=sys.stderr,
        )
        return 2
    with tempfile.TemporaryDirectory(prefix="gantry-check-") as scratch:
        first = _build(CHECKOUT, Path(scratch) / "first", {}, umask=0o022)
        clone = Path(scratch) / "a folder of another name"
        subprocess.run(["git", "clone", "--quiet", "--shared", CHECKOUT, clone], check=True)
        second = _build(clone, Path(scratch) / "second", _UNLIKE, umask=0o077)
        if first.read_bytes() == second.read_bytes():
            print(f"equal: {first.name}, sha256 {hashlib.sha256(first.read_bytes()).hexdigest()}")
            return 0
        print(f"{first.name} is not the same when it is built again:")
        for line in _differences(first, second) or ["only the archives themselves, not what is in them"]:
            print(f"  {line}")
        return 1


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout


def _build(checkout: Path, output: Path, environ: Mapping[str, str], *, umask: int) -> Path:
    """Build the package of a checkout with the tools of this one."""
    command: list[str | Path] = [sys.executable, checkout / "deploy/package/build.py", "--output", output]
    subprocess.run(command, env={**os.environ, **environ}, cwd=checkout, umask=umask, stdout=sys.stderr, check=True)
    (package,) = output.glob("*.deb")
    return package


def _differences(first: Path, second: Path) -> list[str]:
    found = []
    for what, option in (("control", "--ctrl-tarfile"), ("data", "--fsys-tarfile")):
        one, other = _entries(first, option), _entries(second, option)
        for name in sorted(one.keys() | other.keys()):
            if one.get(name) != other.get(name):
                found.append(f"{what}: {name}: {one.get(name, 'missing')} and {other.get(name, 'missing')}")
        if list(one) != list(other):
            found.append(f"{what}: the order of the entries")
    return found


def _entries(package: Path, option: str) -> dict[str, str]:
    """What is told of each entry of an archive, in their order."""
    done = subprocess.run(["dpkg-deb", option, package], stdout=subprocess.PIPE, check=True)
    entries = {}
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        for entry in archive:
            file = archive.extractfile(entry) if entry.isfile() else None
            digest = hashlib.sha256(file.read()).hexdigest()[:12] if file else entry.linkname
            entries[entry.name] = f"{entry.mode:o} {entry.uname}:{entry.gname} {entry.mtime} {digest}"
    return entries


if __name__ == "__main__":
    sys.exit(main())
