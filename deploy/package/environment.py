"""The environment that the package carries: Debian's Python, the locked dependencies, and Gantry.

Its folder bears a name of its own, `VERSION-DIGEST`, and all its programs name that folder in their first line. So a
process imports from the version with which it began as long as it lives, whatever is installed meanwhile.
"""

import base64
import csv
import hashlib
import io
import os
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
LOCK: Final = HERE / "requirements.lock"
# Debian's, for which the package is: not the Python that builds it
DEBIAN_PYTHON: Final = Path("/usr/bin/python3")
# there the environments of all installed versions are
VERSIONS: Final = "/opt/gantry/versions"
_CONFIG: Final = "home = /usr/bin\ninclude-system-site-packages = false\n"
# -I: neither variables of the environment nor the folder of a user change what is imported
_SCRIPT: Final = """#!{folder}/bin/python3 -I
import sys

from {module} import {function}

sys.exit({function}())
"""
# the file whose mapping tells which processes use this environment
_IN_USE: Final = '''"""Maps a file of this environment while the process or a fork lives: see /proc/PID/maps."""

import mmap
from pathlib import Path

with open(Path(__file__).parents[3] / "in-use", "rb") as _file:
    MAPPED = mmap.mmap(_file.fileno(), 0, access=mmap.ACCESS_READ)
'''


def make_environment(folder: Path, source: Path, pip: Path) -> str:
    """Make the environment in an empty folder, and return the name that it must bear under `VERSIONS`.

    Its programs and man pages are those of Gantry alone.

    Args:
        source: a copy of the sources, with pyproject.toml.
        pip: a pip of 22.3 or later, whose environment has hatchling.
    Raises: subprocess.CalledProcessError: a dependency is missing, or not what the lock says.
    """
    _make_empty(folder)
    _install(folder, pip, "--require-hashes", "--only-binary", ":all:", "--requirement", str(LOCK))
    wheel = _make_wheel(source, source.parent / "wheel", pip, site_packages(folder))
    _install(folder, pip, "--no-index", str(wheel))
    packages = site_packages(folder)
    _remove_traces(folder, packages)
    _mark_use(folder, packages)
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    remove_compiled(folder)
    name = f"{project['version']}-{_digest(folder)[:8]}"
    _write_scripts(folder, packages, name, project["scripts"])
    return name


def site_packages(folder: Path) -> Path:
    (found,) = folder.glob("lib/python3.*/site-packages")
    return found


def remove_compiled(folder: Path) -> None:
    """Remove what programs that looked into the environment have compiled: it tells of places and instants."""
    for found in list(folder.rglob("__pycache__")):
        shutil.rmtree(found)


def _make_empty(folder: Path) -> None:
    programs = folder / "bin"
    programs.mkdir(parents=True)
    (programs / "python3").symlink_to(DEBIAN_PYTHON)
    (programs / "python").symlink_to("python3")
    (folder / "pyvenv.cfg").write_text(_CONFIG)


def _install(folder: Path, pip: Path, *what: str) -> None:
    words = ("--no-deps", "--no-compile", "--no-warn-script-location", "--quiet", "--disable-pip-version-check")
    subprocess.run([pip, "--python", folder / "bin/python3", "install", *words, *what], check=True)


def _make_wheel(source: Path, folder: Path, pip: Path, packages: Path) -> Path:
    """Make Gantry's wheel. Args: packages: the dependencies, which the making of man pages needs."""
    words = ("--no-deps", "--no-build-isolation", "--quiet", "--disable-pip-version-check")
    environ = {**os.environ, "PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([pip, "wheel", *words, "--wheel-dir", folder, source], check=True, env=environ)
    (wheel,) = folder.glob("gantry-*.whl")
    return wheel


def _remove_traces(folder: Path, packages: Path) -> None:
    """Remove the programs of others, and all that tells of the folder and the time of the build."""
    for program in (folder / "bin").iterdir():
        if not program.is_symlink():
            program.unlink()
    for found in (*packages.glob("*.dist-info/direct_url.json"), *packages.glob("*.dist-info/REQUESTED")):
        found.unlink()
    for record in packages.glob("*.dist-info/RECORD"):
        rows = csv.reader(io.StringIO(record.read_text()))
        kept = sorted(row for row in rows if (packages / row[0]).is_file() and not row[0].startswith(".."))
        _write_record(record, kept)
    shutil.rmtree(folder / "include", ignore_errors=True)


def _write_record(record: Path, rows: list[list[str]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    record.write_text(text.getvalue())


def _mark_use(folder: Path, packages: Path) -> None:
    (folder / "in-use").write_text("mapped by each process that uses this environment\n")
    (packages / "gantry_in_use.py").write_text(_IN_USE)
    (packages / "gantry_in_use.pth").write_text("import gantry_in_use\n")


def _digest(folder: Path) -> str:
    """A digest of all names, contents and links of a folder, and of what is still written into it."""
    digest = hashlib.sha256(_SCRIPT.encode())
    for path in sorted(folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue
        content = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
        digest.update(f"{path.relative_to(folder)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _write_scripts(folder: Path, packages: Path, name: str, programs: Mapping[str, str]) -> None:
    """Write Gantry's programs, and enter them in its list of installed files.

    Args: programs: the entry point of each.
    """
    (record,) = packages.glob("gantry-*.dist-info/RECORD")
    rows = list(csv.reader(io.StringIO(record.read_text())))
    for program, place in programs.items():
        module, _, function = place.partition(":")
        text = _SCRIPT.format(folder=f"{VERSIONS}/{name}", module=module, function=function).encode()
        path = folder / "bin" / program
        path.write_bytes(text)
        path.chmod(0o755)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
        rows.append([f"../../../bin/{program}", f"sha256={digest}", str(len(text))])
    _write_record(record, sorted(rows))
