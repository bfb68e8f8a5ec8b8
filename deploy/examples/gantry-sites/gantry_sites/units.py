"""The logical unit: it carries out an opcode in the process of a job, which holds its locks."""

import hashlib
import hmac
import os
import shutil
from pathlib import Path
from typing import Any, ClassVar

from common.errors import JobCanceled, PrerequisiteError
from common.opcodes.base import OpCode
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from gantry_sites.opcodes import OpSitePublish


class SitePublishUnit(LogicalUnit[OpSitePublish]):
    """Copy the files to a folder of their own, then make the link `current` point there."""

    OPCODE: ClassVar[type[OpCode]] = OpSitePublish

    def check_prereq(self, context: UnitContext) -> None:
        for name in ("source", "store"):
            path = Path(getattr(self.op, name))
            if not path.is_absolute():
                raise PrerequisiteError(f"{name} must be an absolute path, got '{path}'", "wrong_input")
            if not path.is_dir():
                raise PrerequisiteError(f"{name}: there is no folder '{path}'", "wrong_state")

    def run(self, context: UnitContext) -> dict[str, Any]:
        site = Path(self.op.store) / self.op.site
        numbers = _releases(site)
        release = site / str(numbers[-1] + 1 if numbers else 1)
        try:
            files = self._copy(release, context)
            self._sign(release, files)
        except BaseException:
            # each step may fail or be interrupted; the site then stays unchanged
            shutil.rmtree(release, ignore_errors=True)
            raise
        _switch(site, release)
        removed = numbers[: max(len(numbers) + 1 - self.op.keep, 0)]
        for number in removed:
            shutil.rmtree(site / str(number))
        return {"release": int(release.name), "files": len(files), "removed": removed}

    def _copy(self, release: Path, context: UnitContext) -> list[str]:
        source = Path(self.op.source)
        files = sorted(str(path.relative_to(source)) for path in source.rglob("*") if path.is_file())
        for count, name in enumerate(files, 1):
            if context.cancelled:
                raise JobCanceled("canceled before all files were copied; the old release stays in place")
            (release / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, release / name)
            context.progress(count / len(files), name)
        return files

    def _sign(self, release: Path, files: list[str]) -> None:
        if not self.op.credentials:
            return
        signature = hmac.new(str(self.op.credentials["key"]).encode(), digestmod=hashlib.sha256)
        for name in files:
            signature.update(hashlib.sha256((release / name).read_bytes()).digest())
        (release / "SIGNATURE").write_text(signature.hexdigest() + "\n")


def _releases(site: Path) -> list[int]:
    names = [path.name for path in site.iterdir()] if site.is_dir() else []
    return sorted(int(name) for name in names if name.isdigit())


def _switch(site: Path, release: Path) -> None:
    fresh = site / "current.new"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(release.name)
    os.replace(fresh, site / "current")
