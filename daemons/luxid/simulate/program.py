"""gantry-simulate: the order of jobs under several policies. The only module here that reads and writes."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

import orjson

from common.errors import GantryError, InvalidRequest, NotFound
from common.queue.terms import read_use
from common.resources import Resource
from common.settings import Settings
from common.settingsfile import find_installation, load_settings
from common.system.daemons.program import release
from daemons.luxid.core.choice.weights import WeightRules
from daemons.luxid.simulate.export import export
from daemons.luxid.simulate.generators import KINDS, generate
from daemons.luxid.simulate.measures import measure
from daemons.luxid.simulate.plot import draw, load_plotting
from daemons.luxid.simulate.policies import policies
from daemons.luxid.simulate.replay import Limits, Run, replay
from daemons.luxid.simulate.report import Comparison, json_value, text
from daemons.luxid.simulate.trace import TraceJob, read_trace, write_trace

NAME: Final = "gantry-simulate"
# exit codes of all commands
_FAILED, _USAGE, _NOT_FOUND, _INTERRUPTED = 1, 2, 3, 130
_TICKS: Final = (5, 30, 120)


def main() -> NoReturn:
    """The program gantry-simulate; `gnt-debug simulate` is the same."""
    parser = _parser()
    given = parser.parse_args()
    try:
        _check(given, parser)
        _export(given) if given.export else _compare(given)
        sys.stdout.flush()
    except (GantryError, OSError) as error:
        _fail(error)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    sys.exit(0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(NAME, description="Run a trace of jobs in virtual time, under several policies.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {release()}")
    parser.add_argument("trace", nargs="?", type=Path, metavar="TRACE", help="a file with a JSON object a line")
    parser.add_argument("--generate", choices=tuple(KINDS), help="draw a load instead of reading one")
    parser.add_argument("--export", type=Path, metavar="FILE", help="write the trace of an installation's jobs")
    parser.add_argument("--jobs", type=_count, default=2000, help="how many to generate")
    parser.add_argument("--seed", type=int, default=1, help="seed of the generator")
    parser.add_argument("--slots", type=_count, help="jobs that run at once")
    parser.add_argument(
        "--resource", type=_resource, action="append", default=[], metavar="NAME=TOTAL", help="units that there are"
    )
    parser.add_argument("--ticks", type=_count, action="append", metavar="K", help="a K to compare; several times")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the waits as PNG; needs matplotlib")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    parser.add_argument("--root", type=Path, metavar="DIR", help="the installation whose settings and jobs to use")
    return parser


def _count(word: str) -> int:
    number = int(word)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def _resource(word: str) -> Resource:
    key, _, total = word.partition("=")
    try:
        use = read_use(key, 1)
    except InvalidRequest as error:
        raise argparse.ArgumentTypeError(error.message) from None
    if not (total.isascii() and total.isdigit()):
        raise argparse.ArgumentTypeError(f"write NAME=TOTAL with a whole number, got '{word}'")
    return Resource(use.node, use.resource, int(total))


def _check_uses(trace: Sequence[TraceJob], limits: Limits) -> None:
    """Raises: InvalidRequest: a job uses more than there is, and would wait for ever."""
    totals = {each.key: each.total for each in limits.resources}
    for number, job in enumerate(trace, 1):
        for use in job.uses:
            if use.count > totals.get(use.key, 0):
                raise InvalidRequest(
                    f"job {number} of the trace uses {use.count} of '{use.key}', and there are "
                    f"{totals.get(use.key, 0)}; give --resource {use.key}={use.count} or more"
                )


def _check(given: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    if sum(each is not None for each in (given.trace, given.generate, given.export)) != 1:
        parser.error("give one of TRACE, --generate and --export")


def _export(given: argparse.Namespace) -> None:
    found = export(find_installation(given.root).paths)
    given.export.write_bytes(write_trace(found.trace))
    _remark(f"{len(found.trace)} jobs written to {given.export}")
    if found.unfinished:
        _remark(f"{found.unfinished} jobs left out: they have not ended, or were never executed")
    if found.unreadable:
        _remark(f"{found.unreadable} job files left out: they cannot be read")
    if found.partly_known:
        _remark(f"{found.partly_known} jobs had more locks than their opcodes tell; these are not in the trace")


def _compare(given: argparse.Namespace) -> None:
    # first, so that a missing matplotlib does not waste the work
    plotting = load_plotting() if given.plot else None
    settings = load_settings(given.root)
    source, trace = _trace(given)
    limits = _limits(given, settings)
    _check_uses(trace, limits)
    runs = {
        policy.name: replay(trace, policy, limits) for policy in policies(given.ticks or _TICKS, _weights(settings))
    }
    comparison = _comparison(source, limits, runs)
    if given.output == "json":
        sys.stdout.write(orjson.dumps(json_value(comparison)).decode() + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in text(comparison))
    if plotting is not None:
        draw(plotting, source, runs, given.plot)


def _trace(given: argparse.Namespace) -> tuple[str, Sequence[TraceJob]]:
    if given.generate:
        return f"{given.generate}, seed {given.seed}", generate(given.generate, given.jobs, given.seed)
    return str(given.trace), read_trace(given.trace.read_bytes(), str(given.trace))


def _comparison(source: str, limits: Limits, runs: dict[str, tuple[Run, ...]]) -> Comparison:
    baseline = next(iter(runs.values()))
    rows = tuple(measure(policy, each, baseline) for policy, each in runs.items())
    return Comparison(source, len(baseline), limits, rows)


def _limits(given: argparse.Namespace, settings: Settings) -> Limits:
    return Limits(
        slots=given.slots or settings.luxid.max_running_jobs,
        max_bypass=settings.wconfd.max_bypass if settings.wconfd.fair else None,
        max_unit_bypass=settings.luxid.max_unit_bypass,
        resources=tuple(given.resource),
    )


def _weights(settings: Settings) -> WeightRules:
    return WeightRules(base=settings.luxid.lock_weight_base, tick_s=settings.luxid.lock_weight_tick_s)


def _remark(line: str) -> None:
    print(line, file=sys.stderr)


def _fail(error: GantryError | OSError) -> NoReturn:
    if isinstance(error, GantryError):
        _remark(f"error: {error.message}")
    else:
        place = f" '{error.filename}'" if error.filename else ""
        _remark(f"error: {(error.strerror or str(error)).lower()}{place}; check the path and its owner")
    sys.exit(_USAGE if isinstance(error, InvalidRequest) else _NOT_FOUND if isinstance(error, NotFound) else _FAILED)


if __name__ == "__main__":
    main()
