"""The package raises the limit of inotify instances, and never lowers it."""

import subprocess
from pathlib import Path

import pytest

from deploy.package.contents import _units

CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(("before", "after"), [("128", "1024"), ("1024", "1024"), ("8192", "8192")])
def test_the_installation_raises_the_limit_and_never_lowers_it(tmp_path: Path, before: str, after: str) -> None:
    limit = tmp_path / "max_user_instances"
    limit.write_text(f"{before}\n")
    functions, _, _ = (CHECKOUT / "deploy/package/postinst").read_text().partition('case "$1" in')

    subprocess.run(["sh", "-c", f'{functions}\nallow_watches "$0"', str(limit)], check=True)

    assert limit.read_text().strip() == after
    assert "    allow_watches\n" in (CHECKOUT / "deploy/package/postinst").read_text()


def test_at_a_boot_every_other_file_that_sets_the_limit_wins(tmp_path: Path) -> None:
    _units(tmp_path, CHECKOUT / "deploy/systemd")

    (file,) = (tmp_path / "usr/lib/sysctl.d").iterdir()
    # systemd-sysctl reads the files of all folders in the order of their names
    assert file.name < "10"
    assert "fs.inotify.max_user_instances = 1024\n" in file.read_text()
