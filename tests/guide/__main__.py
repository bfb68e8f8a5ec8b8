"""Run the guide: every command of every page, and compare what it prints with the page.

    python -m tests.guide                    all pages
    python -m tests.guide PAGE...            some, such as docs/guide/plans.md or plans
    python -m tests.guide --accept PAGE...   rewrite their outputs as they are; read the change before you keep it

Needs root, util-linux and iproute2: each page has rooms of its own, made of the kernel's name spaces. A machine where
no room can be made is told so in one line, and that is no failure.
"""

import argparse
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.guide.accepting import rewritten
from tests.guide.environments import ELSEWHERE, ENVIRONMENTS, why_no_rooms, why_not
from tests.guide.page import DEFAULT_ENVIRONMENT, Command, Page, WrongPage, read_page
from tests.guide.room import CHECKOUT
from tests.guide.running import Result, run_page

PAGES: Final = CHECKOUT / "docs" / "guide"
# most of their time they wait for other processes
_AT_ONCE: Final = 4
# program -> Debian's package that has it
_NEEDED: Final = {"unshare": "util-linux", "ip": "iproute2", "ss": "iproute2", "curl": "curl"}
# so many of the commands that took longest are told, if that is wanted
_SLOWEST: Final = 25


def main(words: Sequence[str]) -> int:
    options = _options(words)
    # in the background of a shell Ctrl-C is ignored, and then by all commands of the pages
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        pages = [read_page(path) for path in options.pages or sorted(PAGES.glob("**/*.md"))]
        check_environments(pages)
        if (reason := _why_not_here()) is not None:
            print(f"the commands of the guide are left out: {reason}")
            return 0
        began = time.monotonic()
        here = _longest_first([page for page in pages if why_not(page.environment) is None])
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            results = list(threads.map(lambda page: _run(page, is_accepting=options.accept), here))
        if not options.accept:
            results = [result if result.is_as_told else _once_more(result) for result in results]
    except WrongPage as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        return 1
    if options.accept:
        _accept(results)
        return 0
    _tell(pages, results, time.monotonic() - began)
    if options.slowest:
        _tell_slowest(results)
    return 0 if all(result.is_as_told for result in results) else 1


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.guide", description="Run the commands of the guide.")
    parser.add_argument("--accept", action="store_true", help="rewrite the outputs in the pages as they are")
    parser.add_argument("--slowest", action="store_true", help="tell the commands that took longest")
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


def _why_not_here() -> str | None:
    """Why this machine cannot run the guide; None: it can. Installs what is missing."""
    if os.geteuid():
        return "only root can make their rooms"
    if missing := sorted({package for program, package in _NEEDED.items() if not shutil.which(program)}):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "install", "-qq", "--yes", "--no-install-recommends"]
        try:
            subprocess.run(["apt-get", "update", "-qq"], check=True)
            subprocess.run([*install, *missing], check=True, env=environment)
        except (OSError, subprocess.CalledProcessError):
            return f"they need Debian's {', '.join(missing)}, which cannot be installed"
    return why_no_rooms()


def _longest_first(pages: Sequence[Page]) -> list[Page]:
    """Pages of several machines, and among them those of many commands, so that none is left alone at the end."""
    return sorted(pages, key=lambda page: (page.environment == DEFAULT_ENVIRONMENT, -len(page.commands)))


def _run(page: Page, *, is_accepting: bool) -> Result:
    with ENVIRONMENTS[page.environment]() as environment:
        return run_page(page, environment, is_accepting=is_accepting)


def _once_more(result: Result) -> Result:
    """Run a page alone that differs: what it shows must be seen by a reader whose machine is not busy."""
    print(result.told())
    print(f"{result.page.path.stem} differs beside other pages; it is run again, alone", flush=True)
    return _run(result.page, is_accepting=False)


def _accept(results: Sequence[Result]) -> None:
    for result in results:
        path = result.page.path
        path.write_text(rewritten(path.read_text(), result.differences))
        print(f"{path.stem}: {len(result.differences)} outputs rewritten in {result.seconds:.1f} s")
        if result.halt is not None:
            print(result.halt)


def _tell(pages: Sequence[Page], results: Sequence[Result], seconds: float) -> None:
    for result in results:
        if not result.is_as_told:
            print(f"{result.told()}\n")
    for result in sorted(results, key=lambda each: each.page.path):
        count, wrong = len(result.page.commands), len(result.differences)
        state = "not ended" if result.halt is not None else f"{wrong} differ" if wrong else "as told"
        print(f"{result.page.path.stem:32} {count:4} commands  {state}  {result.seconds:.1f} s")
    for page in pages:
        if (reason := why_not(page.environment)) is not None:
            print(f"{page.path.stem:32} {len(page.commands):4} commands  {reason}")
    run, everything = (sum(len(page.commands) for page in some) for some in ([r.page for r in results], pages))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime
    print(f"{len(pages)} pages, {run}/{everything} commands run here in {seconds:.0f} s, {cpu:.0f} s of processor time")


def _tell_slowest(results: Sequence[Result]) -> None:
    def told(page: Page, command: Command, seconds: float) -> str:
        return f"{seconds:6.1f} s  {page.path.name}:{command.line + 1}: {command.text.splitlines()[0]}"

    times = [(result.page, command, seconds) for result in results for command, seconds in result.times]
    for page, command, seconds in sorted(times, key=lambda each: -each[2])[:_SLOWEST]:
        print(told(page, command, seconds))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
