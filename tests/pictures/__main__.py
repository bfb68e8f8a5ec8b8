"""Make the pictures in docs/pictures anew; install what they need first, as far as this user may.

python -m tests.pictures [demo] [page]      both, if none is named

demo    the terminal of `make demo`, while its jobs run, and with its proof
page    the first page of the web interface, while jobs run and wait, printed by Chromium
"""

import os
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = CHECKOUT / "docs" / "pictures"
PARTS: Final = ("demo", "page")
_MODULES: Final = ("pyte", "selenium")
# Debian's package of each program
_PROGRAMS: Final = {
    "/usr/bin/chromium": "chromium",
    "/usr/bin/chromedriver": "chromium-driver",
    "/usr/bin/pdftocairo": "poppler-utils",
    # the letters of the page
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf": "fonts-dejavu-core",
}


def main(parts: list[str]) -> int:
    if set(parts) - set(PARTS):
        print(__doc__, file=sys.stderr)
        return 2
    if not _install():
        return 2
    for part in parts or PARTS:
        # only now, as its libraries are there
        for picture in import_module(f"tests.pictures.{part}").make(FOLDER):
            print(f"{picture.relative_to(CHECKOUT)}  {picture.stat().st_size / 1024:.0f} KiB", flush=True)
    return 0


def _install() -> bool:
    if any(find_spec(module) is None for module in _MODULES):
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--editable", ".[pictures]"], cwd=CHECKOUT, check=True)
    packages = [package for program, package in _PROGRAMS.items() if not Path(program).exists()]
    if packages and os.geteuid():
        print(f"as root: apt-get install {' '.join(packages)}", file=sys.stderr)
        return False
    if packages:
        subprocess.run(["apt-get", "update", "-q"], check=True)
        install = ["apt-get", "install", "-q", "--yes", "--no-install-recommends"]
        subprocess.run([*install, *packages], check=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
