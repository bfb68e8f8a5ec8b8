"""make docs: build the guide and the reference into docs/_build/html, without a network; each warning is an error.

python docs/build.py
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

DOCS = Path(__file__).resolve().parent
CHECKOUT = DOCS.parent
REFERENCE = DOCS / "_reference"
HTML = DOCS / "_build" / "html"
# one of each package that the extra `docs` has
MODULES = ("sphinx", "myst_parser", "furo")
_LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=\"(?:https?:)?//[^\"]*\"")
_LINK = re.compile(r"\bhref=\"(https?://[^\"]*)\"")


def main() -> int:
    install_what_is_missing()
    write_reference()
    code = build()
    if code == 0:
        code = check_that_nothing_is_loaded()
        tell_links()
    return code


def install_what_is_missing() -> None:
    if not all(map(find_spec, MODULES)):
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--editable", ".[docs]"], cwd=CHECKOUT, check=True)


def write_reference() -> None:
    """The pages that are made from the programs, the settings and the opcodes."""
    shutil.rmtree(REFERENCE, ignore_errors=True)
    REFERENCE.mkdir()
    if (CHECKOUT / "cli" / "manual").is_dir():
        words = [sys.executable, "-m", "cli.manual", "reference", str(REFERENCE)]
        subprocess.run(words, cwd=CHECKOUT, check=True)
    else:
        (REFERENCE / "index.md").write_text("# Reference\n\nEvery program tells its own by `--help`.\n")


def build() -> int:
    # all pages anew, as only a page that is read can warn
    shutil.rmtree(HTML, ignore_errors=True)
    words = ["-q", "--fail-on-warning", "--keep-going", "--nitpicky", "--fresh-env", "--jobs", "2", "-b", "html"]
    return subprocess.run([sys.executable, "-m", "sphinx", *words, str(DOCS), str(HTML)], check=False).returncode


def check_that_nothing_is_loaded() -> int:
    """A page that loads from another host does not show without a network, and tells that host of its reader."""
    wrong = [(path, found[0]) for path, text in _pages() for found in _LOADED.finditer(text)]
    for path, words in wrong:
        print(f"{path.relative_to(HTML)}: loads from another host: {words}", file=sys.stderr)
    return 1 if wrong else 0


def tell_links() -> None:
    """Links to other hosts are only listed: whether they hold needs a network."""
    pages = list(_pages())
    links = sorted({found[1] for _, text in pages for found in _LINK.finditer(text)})
    print(f"{len(pages)} pages in {HTML.relative_to(CHECKOUT)}, 0 warnings; links to other hosts, not checked:")
    print("\n".join(f"  {link}" for link in links) or "  none")


def _pages() -> Iterator[tuple[Path, str]]:
    for path in sorted(HTML.rglob("*.html")):
        yield path, path.read_text()


if __name__ == "__main__":
    sys.exit(main())
