"""What the package puts beside the environment: units, snippets, completion, documentation."""

import gzip
import json
import shutil
import subprocess
from pathlib import Path
from typing import Final

DOCS: Final = "usr/share/doc/gantry"
# where a shell looks for the completion of a program; bash takes `gnt-job.bash` only where Ganeti has no `gnt-job`
_COMPLETIONS: Final = {
    "bash": "usr/share/bash-completion/completions/{program}.bash",
    "zsh": "usr/share/zsh/vendor-completions/_{program}",
    "fish": "usr/share/fish/vendor_completions.d/{program}.fish",
}
# documents keep the places by which they name each other
_DOCUMENTS: Final = (
    "*.md",
    "docs/**/*.md",
    "deploy/*.sample",
    "deploy/systemd/*.md",
    *(f"deploy/{folder}/**/*" for folder in ("etcd", "examples", "ganeti", "monitoring")),
)
# writes the scripts; its argument is a list of shell, program and place
_WRITE: Final = """
import json, pathlib, sys
from cli.completion import completion_script
for shell, program, place in json.loads(sys.argv[1]):
    pathlib.Path(place).write_text(completion_script(shell, program) + "\\n")
"""
# the links through which units, scripts and people reach the version in use; the package's scripts make `current`
_LINKS: Final = {
    "opt/gantry/bin": "current/bin",
    "opt/gantry/lib": "current/lib",
    "opt/gantry/pyvenv.cfg": "current/pyvenv.cfg",
    "opt/gantry/share": "/usr/share/doc/gantry",
    "usr/bin/gantry": "/opt/gantry/bin/gantry",
}


def lay_out(root: Path, source: Path, programs: tuple[str, ...]) -> None:
    """Put all files but the environment into the tree of the package.

    Args: programs: those that people call.
    """
    _units(root, source / "deploy" / "systemd")
    _copy(source / "deploy/logrotate/gantry", root / "etc/logrotate.d/gantry")
    _copy(source / "deploy/package/gantry.toml", root / "etc/gantry/gantry.toml")
    _copy(source / "deploy/package/lintian-overrides", root / "usr/share/lintian/overrides/gantry")
    _documentation(root / DOCS, source)
    _manual(root, root / "opt/gantry/shipped/share/man", programs)
    for name, target in _LINKS.items():
        link = root / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    _completions(root, programs)


def _units(root: Path, folder: Path) -> None:
    for kind in ("service", "target", "path", "socket", "timer"):
        for unit in folder.glob(f"*.{kind}"):
            _copy(unit, root / "usr/lib/systemd/system" / unit.name)
        for unit in (folder / "user").glob(f"*.{kind}"):
            _copy(unit, root / "usr/lib/systemd/user" / unit.name)
    for kind in ("sysusers", "tmpfiles"):
        _copy(folder / f"gantry.{kind}.conf", root / f"usr/lib/{kind}.d/gantry.conf")
    # read before all others, so that it never lowers what the administrator has set
    _copy(folder / "gantry.sysctl.conf", root / "usr/lib/sysctl.d/00-gantry.conf")


def _documentation(folder: Path, source: Path) -> None:
    """The documents; the sample of all settings also at the top."""
    for pattern in _DOCUMENTS:
        for path in source.glob(pattern):
            if path.is_file():
                _copy(path, folder / path.relative_to(source))
    (folder / "gantry.toml.sample").symlink_to("deploy/gantry.toml.sample")
    (folder / "CHANGELOG.md").unlink()
    changelog = gzip.compress((source / "CHANGELOG.md").read_bytes(), mtime=0)
    (folder / "changelog.gz").write_bytes(changelog)


def _manual(root: Path, folder: Path, programs: tuple[str, ...]) -> None:
    """Move the man pages to where man looks; those that bear names of Ganeti's to where alternatives lead."""
    for page in sorted(folder.glob("man?/*")):
        is_shared = page.suffix == ".1" and page.stem in programs and page.stem != "gantry"
        place = root / ("usr/share/gantry/man" if is_shared else "usr/share/man") / page.parent.name / f"{page.name}.gz"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(gzip.compress(page.read_bytes(), mtime=0))
    shutil.rmtree(folder.parent)


def _completions(root: Path, programs: tuple[str, ...]) -> None:
    wanted = []
    for shell, pattern in _COMPLETIONS.items():
        for program in programs:
            place = root / pattern.format(program=program)
            place.parent.mkdir(parents=True, exist_ok=True)
            wanted.append((shell, program, str(place)))
    subprocess.run([root / "opt/gantry/shipped/bin/python3", "-IBc", _WRITE, json.dumps(wanted)], check=True)


def _copy(path: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, place)
