"""Daemons forked from a process that has loaded their code: that of a master at once, of others at their first start.

daemon = start_daemon("daemons.luxid.main", ["--root", str(root)], env, errors)
daemon.wait(60)
"""

import importlib
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import inotify_simple

from common.daemons import start_order
from common.settingsfile import load_settings
from tests.support.forks.forked import Forked, Forker


def start_daemon(
    module: str, arguments: Sequence[str], env: Mapping[str, str], errors: int, *, limit: int | None = None
) -> Forked:
    """Run the `main` of a module in a process of its own.

    Args:
        errors: descriptor of its standard error.
        limit: of descriptors; None: as the test has.
    """
    command = [sys.executable, "-P", "-m", module, *arguments]
    return _forker().start(module, [module, *arguments], command, env, {2: errors}, limit=limit)


@cache
def _forker() -> Forker:
    return Forker(__name__)


def load() -> None:
    for daemon in start_order():
        importlib.import_module(daemon.module)
    warmup = importlib.import_module("daemons.jobproc.forkserver.warmup")
    warmup.warm_up()
    # what a rehearsal makes here, fork servers have from here; each of them rehearses once to see that it can
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(Path(folder))
        settings.paths.make_folders()
        assert warmup.rehearse(settings)
    warmup.ROUNDS = 1  # type: ignore[attr-defined]
    # its first use looks for the C library, by another program
    inotify_simple.INotify().close()
