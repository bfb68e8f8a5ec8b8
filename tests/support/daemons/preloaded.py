"""Daemons forked from a process that has loaded their code: that of a master at once, of others at their first start.

daemon = start_daemon("daemons.luxid.main", ["--root", str(root)], env, errors)
daemon.wait(60)
"""

import importlib
import sys
from collections.abc import Mapping, Sequence
from functools import cache

import inotify_simple

from common.daemons import start_order
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
    importlib.import_module("daemons.jobproc.forkserver.warmup").warm_up()
    # its first use looks for the C library, by another program
    inotify_simple.INotify().close()
