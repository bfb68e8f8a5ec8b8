"""make deb: build dist/gantry_VERSION_ARCH.deb from the files that git tracks.

python deploy/package/build.py [--version VERSION] [--output FOLDER]

Two builds of one commit are equal, byte for byte, in whatever folders they are made: instants come from the commit, and
what pip writes about the build is removed. $SOURCE_DATE_EPOCH overrides the instant.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Final

from billofmaterials import write_bill
from contents import DOCS, lay_out
from environment import DEBIAN_PYTHON, make_environment, remove_compiled, site_packages
from licences import write_copyright

CHECKOUT: Final = Path(__file__).resolve().parents[2]
BIN: Final = Path(sys.executable).parent
# the environment as dpkg keeps it; the package's scripts make a version of it, with hard links
SHIPPED: Final = "opt/gantry/shipped"
# conffiles, with the words for them in nfpm.yaml
_CONFIG: Final = {"SETTINGS": "etc/gantry/gantry.toml", "ROTATION": "etc/logrotate.d/gantry"}


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the Debian package.")
    parser.add_argument("--version", help="another version than pyproject.toml says, to try upgrades")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "dist", help="folder of the package (dist)")
    given = parser.parse_args()
    if not DEBIAN_PYTHON.exists() or _python_version() != "3.11":
        print(f"error: '{DEBIAN_PYTHON}' is not Debian 12's Python 3.11, which the package needs; install python3")
        return 1
    with tempfile.TemporaryDirectory(prefix="gantry-deb-") as scratch:
        package = build(Path(scratch), given.version, given.output)
    print(f"{package}  {package.stat().st_size / 2**20:.1f} MiB")
    return 0


def build(scratch: Path, version: str | None, output: Path) -> Path:
    """Build the package in a folder for scratch. Returns its place."""
    source, tree = scratch / "source", scratch / "tree"
    _copy_tracked(source)
    if version is not None:
        _set_version(source / "pyproject.toml", version)
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    name = make_environment(tree / SHIPPED, source, BIN / "pip")
    (tree / SHIPPED / "name").write_text(f"{name}\n")
    programs = tuple(program for program in project["scripts"] if re.fullmatch(r"gantry|gnt-\w+", program))
    lay_out(tree, source, programs)
    write_copyright(tree / DOCS, source, site_packages(tree / SHIPPED))
    write_bill(tree / DOCS / "bill-of-materials.cdx.json", tree / SHIPPED, BIN / "cyclonedx-py")
    remove_compiled(tree)
    epoch = _epoch()
    _settle(tree, epoch)
    return _pack(tree, scratch, str(project["version"]), epoch, output)


def _python_version() -> str:
    words = [str(DEBIAN_PYTHON), "-Ic", "import sys; print('%d.%d' % sys.version_info[:2])"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout


def _epoch() -> int:
    return int(os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct"))


def _copy_tracked(folder: Path) -> None:
    for name in _git("ls-files", "-z").split("\0"):
        path = CHECKOUT / name
        if name and not name.startswith("tests/") and path.is_file():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)


def _set_version(project: Path, version: str) -> None:
    changed, count = re.subn(r'^version = "[^"]+"$', f'version = "{version}"', project.read_text(), count=1, flags=re.M)
    assert count == 1, "pyproject.toml names no version"
    project.write_text(changed)


def _settle(tree: Path, epoch: int) -> None:
    """Give all files the modes and the instant of the package."""
    for path in [tree, *tree.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        os.utime(path, (epoch, epoch), follow_symlinks=False)


def _pack(tree: Path, scratch: Path, version: str, epoch: int, output: Path) -> Path:
    variables = {"VERSION": version, "ARCH": _architecture(), "TREE": str(tree), "SOURCE_DATE_EPOCH": str(epoch)}
    config = scratch / "config"
    config.mkdir()
    for variable, name in _CONFIG.items():
        (tree / name).rename(config / variable)
        variables[variable] = str(config / variable)
    output.mkdir(parents=True, exist_ok=True)
    package = output / f"gantry_{version}_{variables['ARCH']}.deb"
    words: list[str | Path] = [
        "package",
        "--packager",
        "deb",
        "--config",
        "deploy/package/nfpm.yaml",
        "--target",
        package,
    ]
    subprocess.run(
        [BIN / "nfpm", *words], cwd=CHECKOUT, env={**os.environ, **variables}, check=True, stdout=subprocess.DEVNULL
    )
    return package


def _architecture() -> str:
    words = ["dpkg", "--print-architecture"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
