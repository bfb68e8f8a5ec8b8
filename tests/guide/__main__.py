"""Run the guide: every command of every page, and compare what it prints with the page.

    python -m tests.guide                    all pages
    python -m tests.guide PAGE...            some, such as docs/guide/plans.md or plans
    python -m tests.guide --accept PAGE...   rewrite their outputs as they are; read the change before you keep it

Needs root, and util-linux and iproute2: each page has rooms of its own, made of the kernel's name spaces.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.guide.accepting import rewritten
from tests.guide.environments import ELSEWHERE, ENVIRONMENTS
from tests.guide.page import Page, WrongPage, read_page
from tests.guide.room import CHECKOUT
from tests.guide.running import Result, run_page

PAGES: Final = CHECKOUT / "docs" / "guide"
# most of their time they wait for other processes
_AT_ONCE: Final = 4
# program -> Debian's package that has it
_NEEDED: Final = {"unshare": "util-linux", "ip": "iproute2", "ss": "iproute2", "curl": "curl"}


def main(words: Sequence[str]) -> int:
    options = _options(words)
    try:
        pages = [read_page(path) for path in options.pages or sorted(PAGES.glob("**/*.md"))]
        check_environments(pages)
        _install_what_is_missing()
        began = time.monotonic()
        here = [page for page in pages if page.environment in ENVIRONMENTS]
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            results = list(threads.map(lambda page: _run(page, is_accepting=options.accept), here))
        if not options.accept:
            results = [_once_more(result) if result.differences else result for result in results]
    except WrongPage as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        return 1
    if options.accept:
        _accept(results)
        return 0
    _tell(pages, results, time.monotonic() - began)
    return 1 if any(result.differences for result in results) else 0


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.guide", description="Run the commands of the guide.")
    parser.add_argument("--accept", action="store_true", help="rewrite the outputs in the pages as they are")
    parser.add_argument("pages", nargs="*", type=_page_path, help="some pages instead of all")
    return parser.parse_args(words)


def _page_path(word: str) -> Path:
    path = Path(word) if word.endswith(".md") else PAGES / f"{word}.md"
    if not path.exists():
        raise argparse.ArgumentTypeError(f"no page {str(path)!r}")
    return path.resolve()


def check_environments(pages: Sequence[Page]) -> None:
    """Raises: WrongPage: nobody would run it."""
    for page in pages:
        if page.environment not in {*ENVIRONMENTS, *ELSEWHERE}:
            known = ", ".join([*ENVIRONMENTS, *ELSEWHERE])
            raise WrongPage(f"{page.path}:1: unknown environment {page.environment!r}; there are {known}")


def _install_what_is_missing() -> None:
    if os.geteuid():
        raise SystemExit("error: the guide is run by root alone, as its rooms are made of the kernel's name spaces")
    if missing := sorted({package for program, package in _NEEDED.items() if not shutil.which(program)}):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        install = ["apt-get", "install", "-qq", "--yes", "--no-install-recommends"]
        subprocess.run([*install, *missing], check=True, env=environment)


def _run(page: Page, *, is_accepting: bool) -> Result:
    with ENVIRONMENTS[page.environment]() as environment:
        return run_page(page, environment, is_accepting=is_accepting)


def _once_more(result: Result) -> Result:
    """Run a page alone that differs: what it shows must be seen by a reader whose machine is not busy."""
    print("\n".join(difference.told() for difference in result.differences))
    print(f"{result.page.path.stem} differs beside other pages; it is run again, alone", flush=True)
    return _run(result.page, is_accepting=False)


def _accept(results: Sequence[Result]) -> None:
    for result in results:
        path = result.page.path
        path.write_text(rewritten(path.read_text(), result.differences))
        print(f"{path.stem}: {len(result.differences)} outputs rewritten in {result.seconds:.1f} s")


def _tell(pages: Sequence[Page], results: Sequence[Result], seconds: float) -> None:
    for result in results:
        for difference in result.differences:
            print(f"{difference.told()}\n")
    for result in results:
        count, wrong = len(result.page.commands), len(result.differences)
        state = f"{wrong} differ" if wrong else "as told"
        print(f"{result.page.path.stem:32} {count:4} commands  {state}  {result.seconds:.1f} s")
    for page in pages:
        if page.environment in ELSEWHERE:
            print(f"{page.path.stem:32} {len(page.commands):4} commands  run by '{ELSEWHERE[page.environment]}'")
    run, everything = (sum(len(page.commands) for page in some) for some in ([r.page for r in results], pages))
    print(f"{len(pages)} pages, {run}/{everything} commands run here in {seconds:.0f} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
