"""Deque's axe-core in the browser: what of a page people cannot perceive or operate.

`python -m tests.browser` installs the Python package that brings the file; the package itself is never imported.
"""

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from tests.browser.browser import Browser

_PACKAGE: Final = "axe_playwright_python"
# elements that a finding names
_NAMED: Final = 5
_RUN: Final = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"]}).then(
  (found) => done(found.violations.map((each) => [each.id, each.help, each.nodes.map((node) => node.html)])),
  (error) => done([["axe itself", String(error), []]]));
"""


@cache
def _source() -> str:
    spec = find_spec(_PACKAGE)
    assert spec is not None, "axe-core is not there; 'make test-browser' installs it"
    assert spec.origin is not None
    return (Path(spec.origin).parent / "axe.min.js").read_text()


def findings(browser: Browser) -> list[str]:
    """What axe-core finds on the page that is open, by all its rules; empty: nothing."""
    driver: Any = browser.driver
    driver.execute_script(f"{_source()}; window.axe = axe")
    driver.set_script_timeout(60)
    return [
        f"{rule}: {help_text}, {len(nodes)} times: {nodes[:_NAMED]}"
        for rule, help_text, nodes in driver.execute_async_script(_RUN)
    ]
