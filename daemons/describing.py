"""Tell the manual about the daemons: `python -m daemons.describing` writes `common.reference` as JSON.

Everything is read from what the daemons use themselves: parsers of their command lines, tables of calls, fields of
queries, declarations of metrics.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pkgutil import walk_packages
from typing import Final, NoReturn, cast
from unittest.mock import patch

import orjson

import daemons.keeperd.rpc
import daemons.luxid.rpc
import daemons.wconfd.rpc
from common.daemons import DAEMONS
from common.metrics import PREFIX, MetricKind, declared
from common.objects.kinds import QueryKind
from common.reference import DaemonFacts, FieldFacts, MetricFacts, ProgramFacts, ProgramOption
from common.system.program import release
from common.wire import unstructure
from daemons.luxid.core.query.jobs import JOBS
from daemons.luxid.core.query.locks import LOCKS
from daemons.luxid.core.query.objects import RULES
from daemons.luxid.handlers.queries import OBJECTS
from daemons.rapid.openapi.document import openapi
from daemons.rapid.rpc import RapidHandlers, rows
from protocol.luxi.queries import FieldDefinition
from protocol.serving.route import AnyRoute

# programs without a row among the daemons: name -> module
_MORE: Final = {
    "gantry-supervisor": "daemons.supervisor.main",
    "gantry-launcher": "daemons.launcher.main",
    "gantry-simulate": "daemons.luxid.simulate.program",
}


class _ParserFound(Exception):
    """A program is about to read its command line."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


class _Anything:
    """Stands for the handlers of a table that is only looked at."""

    def __getattr__(self, name: str) -> "_Anything":
        return self

    def __call__(self, *_: object, **__: object) -> "_Anything":
        return self

    def __iter__(self) -> Iterator["_Anything"]:
        return iter(())


def main() -> None:
    """Write the facts to standard output."""
    sys.stdout.buffer.write(orjson.dumps(unstructure(facts())))


def facts() -> DaemonFacts:
    modules = {f"gantry-{daemon.name}": daemon.module for daemon in DAEMONS} | _MORE
    return DaemonFacts(
        programs=tuple(_program(name, import_module(module).main) for name, module in modules.items()),
        fields={kind: tuple(map(_field, found)) for kind, found in _definitions()},
        roles={
            "luxid": _roles(daemons.luxid.rpc.routes(cast(daemons.luxid.rpc.LuxidHandlers, _Anything()))),
            "wconfd": _roles(daemons.wconfd.rpc.routes(cast(daemons.wconfd.rpc.WconfdHandlers, _Anything()))),
            "keeperd": _roles(daemons.keeperd.rpc.routes(cast(daemons.keeperd.rpc.KeeperdHandlers, _Anything()))),
        },
        metrics=tuple(sorted(_metrics(), key=lambda each: each.name)),
        http=openapi(rows(cast(RapidHandlers, _Anything())), release()),
    )


def _program(name: str, main: Callable[[], object]) -> ProgramFacts:
    parser = parser_of(main)
    options = tuple(_option(action) for action in parser._actions if action.help != argparse.SUPPRESS)
    return ProgramFacts(name, parser.description or "", options)


def parser_of(main: Callable[[], object]) -> argparse.ArgumentParser:
    """The parser of a program, at the moment when it would read its command line."""

    def stop(parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        raise _ParserFound(parser)

    with patch.object(argparse.ArgumentParser, "parse_args", stop), patch.object(sys, "argv", [""]):
        try:
            main()
        except _ParserFound as found:
            return found.parser
    raise TypeError(f"{main.__module__} reads no command line")


def _option(action: argparse.Action) -> ProgramOption:
    choices = "|".join(map(str, action.choices)) if action.choices else ""
    metavar = str(action.metavar) if action.metavar else choices or action.dest.upper()
    has_value = action.nargs != 0
    return ProgramOption(tuple(action.option_strings), metavar if has_value else "", action.help or "")


def _definitions() -> Iterator[tuple[str, list[FieldDefinition]]]:
    yield QueryKind.JOB.value, JOBS.definitions(None)
    yield QueryKind.LOCK.value, LOCKS.definitions(None)
    yield QueryKind.FILTER.value, RULES.definitions(None)
    for kind, objects in OBJECTS.items():
        yield kind.value, objects.definitions(None)


def _field(field: FieldDefinition) -> FieldFacts:
    return FieldFacts(field.name, field.title, field.kind, field.doc)


def _roles(routes: list[AnyRoute]) -> Mapping[str, str]:
    return {route.method: route.role.name.lower() for route in routes}


def _metrics() -> Iterator[MetricFacts]:
    """The metrics that any module of a daemon declares."""
    for module in walk_packages(daemons.__path__, "daemons."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    for metric in declared():
        ending = "_total" if metric.kind is MetricKind.COUNTER else ""
        yield MetricFacts(f"{PREFIX}{metric.name}{ending}", metric.kind.value, metric.text, metric.labels)


if __name__ == "__main__":
    main()
