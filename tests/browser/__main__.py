"""Run the tests in a browser; install what they need first, as far as this user may.

python -m tests.browser [pytest arguments]
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGES = ("chromium", "chromium-driver")
PROGRAMS = ("/usr/bin/chromium", "/usr/bin/chromedriver")
# it brings axe-core's file (MPL-2.0), which is all that is used of it: so what it needs itself is not installed
AXE = "axe-playwright-python==0.1.8"


def main(arguments: list[str]) -> int:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if find_spec("axe_playwright_python") is None:
        subprocess.run([*pip, "--no-deps", AXE], check=True)
    if find_spec("selenium") is None:
        subprocess.run([*pip, "--editable", ".[browser]"], cwd=CHECKOUT, check=True)
    if missing := [program for program in PROGRAMS if not Path(program).exists()]:
        if os.geteuid():
            print(f"{missing[0]} is missing; as root: apt-get install {' '.join(PACKAGES)}", file=sys.stderr)
            return 2
        subprocess.run(["apt-get", "update", "-q"], check=True)
        install = ["apt-get", "install", "-q", "--yes", "--no-install-recommends"]
        subprocess.run([*install, *PACKAGES], check=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    command = [sys.executable, "-m", "pytest", "-q", "tests/browser", *arguments]
    return subprocess.run(command, cwd=CHECKOUT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
