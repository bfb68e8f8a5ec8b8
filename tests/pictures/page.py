"""The first page of the web interface as a vector picture: jobs that run and wait, and why.

A real cluster gets a plan, Chromium opens the page and prints it, and the print becomes a picture in which letters are
shapes: it needs no font.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from common.words.fields import JobRow
from tests.browser.browser import Browser
from tests.pictures.lighter import lighter
from tests.support.wait import wait_until
from tests.support.web.rapid import Web

_USER: Final = ("alex", "operator-of-a-picture")
# pixels; the page is as high as what is on it
_SIZE: Final = (1180, 400)
_PLANS: Final = ("first.yaml", "second.yaml")
_BIN: Final = Path(sys.executable).parent
# what costs many shapes in a picture and shows little (round corners, shadows, hatches, halos of letters), and the
# boards further down. The page's policy takes no style of a stranger but one that a script hands over
_LIGHTER: Final = """
const style = new CSSStyleSheet();
style.replaceSync(`
  * { border-radius: 0 !important; box-shadow: none !important; text-overflow: clip !important }
  .grid > :nth-child(n+3), [fill="url(#hatch)"] { display: none }
  .bar-text { stroke: none !important }
`);
document.adoptedStyleSheets = [style];
"""
# the states that each plan comes to, and stays in
_AT_REST: Final = ({"success": 4, "error": 1, "running": 3}, {"success": 4, "error": 1, "running": 4})


def make(folder: Path) -> Iterator[Path]:
    """Draw the page; return its path."""
    with tempfile.TemporaryDirectory(prefix="gantry-pictures-") as scratch, _queue(Path(scratch) / "root") as web:
        printed = Path(scratch) / "page.pdf"
        with Browser(Path(scratch)) as browser:
            browser.log_in(web.url, *_USER)
            browser.wait_for("nav", text="Dashboard")
            browser.press("light")
            browser.resize(_SIZE)
            browser.open(f"{web.url}/ui")
            browser.wait_for("main", text="back up db1")
            printed.write_bytes(_printed(browser))
        picture = folder / "page.svg"
        picture.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["pdftocairo", "-svg", "-f", "1", "-l", "1", printed, picture], check=True)
        picture.write_text(lighter(picture.read_text(), "The web page: jobs that run and wait, and why"))
        yield picture


def _printed(browser: Browser) -> bytes:
    """The page as PDF, as it looks on a screen, on one sheet of its size."""
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "screen"})
    browser.driver.execute_script(_LIGHTER)
    height = browser.driver.execute_script("return document.documentElement.scrollHeight")
    sheet = {
        **{"paperWidth": _SIZE[0] / 96, "paperHeight": height / 96, "printBackground": True},
        **{f"margin{side}": 0 for side in ("Top", "Bottom", "Left", "Right")},
    }
    return base64.b64decode(browser.driver.execute_cdp_cmd("Page.printToPDF", sheet)["data"])


@contextmanager
def _queue(root: Path) -> Iterator[Web]:
    """A cluster in which the plan has come to rest."""
    with Web(root) as web:
        web.put_users(f"{' '.join(_USER)} operate\n")
        web.start()
        _run(root, "gantry", "resource", "set", "licences", "3")
        _run(root, "gnt-filter", "pause", "--where", "reason=mirror", "--reason", "the mirror is down")
        for plan, at_rest in zip(_PLANS, _AT_REST, strict=True):
            _run(root, "gnt-job", "submit", str(Path(__file__).with_name(plan)))
            wait_until(lambda: _states(root) == at_rest, what=f"{plan} comes to rest", state=lambda: _states(root))  # noqa: B023  # in this turn
        yield web


def _states(root: Path) -> dict[str, int]:
    rows: list[JobRow] = json.loads(_run(root, "gnt-job", "list", "--output", "json", "-o", "status"))
    found = [str(row["status"]) for row in rows]
    return {state: found.count(state) for state in _AT_REST[0]}


def _run(root: Path, *command: str) -> str:
    env = {**os.environ, "GANTRY_ROOT": str(root)}
    return subprocess.run(
        [_BIN / command[0], *command[1:]], env=env, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
