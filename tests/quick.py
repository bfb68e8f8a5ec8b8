"""Prove a small change in less than a minute: lint, types, and the unit tests of the subjects that changed.

    python tests/quick.py [BASE]

Changed is what differs from BASE (by default: from where this branch left main), committed or not. `MAP` says which
unit tests belong to which files, and which other tests to run before a commit; the table in CONTRIBUTING.md is made of
it (`python tests/quick.py --map` prints it; a test compares). All checks run side by side; all failures are told.
"""

import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

CHECKOUT: Final = Path(__file__).resolve().parents[1]
BIN: Final = Path(sys.executable).parent
# the text of the whole repository: names that are cited, imports in a circle
ALWAYS: Final = ("tests/unit/test_citations.py", "tests/unit/test_references.py", "tests/unit/test_circles.py")


class Row(NamedTuple):
    # beginnings of paths
    changed: tuple[str, ...]
    # what `make quick` runs
    unit: tuple[str, ...]
    # tests with processes, and random ones, to run before a commit
    more: tuple[str, ...] = ()


# the most exact row of a file counts: that of the longest beginning
MAP: Final = (
    Row(("common/",), ("tests/unit/common",), ("tests/property", "tests/daemon/system")),
    Row(("common/commands/",), ("tests/unit/common/commands", "tests/unit/jobproc"), ("tests/daemon/jobproc",)),
    Row(("common/durable/",), ("tests/unit/common/durable",), ("tests/daemon/luxid/files", "tests/crash")),
    Row(("common/lease/",), ("tests/unit/common/lease",), ("tests/property/lease", "tests/daemon/lease")),
    Row(("common/metrics.py", "protocol/metrics.py"), ("tests/unit/common/metrics", "tests/unit/rapid/metrics")),
    Row(("common/nodes/",), ("tests/unit/common/nodes",), ("tests/daemon/noded", "tests/daemon/moving")),
    Row(("common/objects/",), ("tests/unit/objects",), ("tests/property/wconfd", "tests/daemon/wconfd/config")),
    Row(
        ("common/objects/networkvalues.py", "common/objects/parameters.py", "common/objects/policies.py"),
        ("tests/unit/jobproc",),
        ("tests/daemon/wconfd/config",),
    ),
    Row(("common/opcodes/",), ("tests/unit/opcodes",), ("tests/property/test_opcodes.py",)),
    Row(("common/query/",), ("tests/unit/common/query",), ("tests/property/test_qlang.py",)),
    Row(
        ("common/queue/",),
        ("tests/unit/common/queue", "tests/unit/luxid/queue"),
        ("tests/property/luxid", "tests/daemon/luxid"),
    ),
    Row(
        ("common/replica/",),
        ("tests/unit/common/replica", "tests/unit/luxid/copies"),
        ("tests/property/luxid", "tests/daemon/luxid/lease", "tests/daemon/wconfd/lease"),
    ),
    Row(("common/schedules/",), ("tests/unit/common/schedules",), ("tests/property/test_cron_words.py",)),
    Row(("common/system/",), ("tests/unit/common/system",), ("tests/daemon/system",)),
    Row(("common/webaccess/",), ("tests/unit/common/webaccess",), ("tests/daemon/rapid",)),
    Row(("common/words/",), ("tests/unit/common/words",), ("tests/cli/verbs",)),
    Row(("protocol/",), ("tests/unit/protocol",), ("tests/property", "tests/daemon/protocol")),
    Row(("protocol/confd/", "daemons/confd/"), ("tests/unit/confd",), ("tests/daemon/confd",)),
    Row(("protocol/etcd/",), ("tests/unit/etcd",), ("tests/daemon/etcd", "tests/daemon/lease")),
    Row(("protocol/http/",), ("tests/unit/protocol/http",), ("tests/daemon/rapid", "tests/daemon/noded")),
    Row(("protocol/noded/",), ("tests/unit/protocol/noded",), ("tests/daemon/noded",)),
    Row(("protocol/rapid/",), ("tests/unit/protocol/rapid",), ("tests/daemon/rapid/clients",)),
    Row(
        ("protocol/serving/",),
        ("tests/unit/protocol/serving",),
        ("tests/property/test_bounds.py", "tests/daemon/protocol"),
    ),
    Row(("daemons/luxid/",), ("tests/unit/luxid",), ("tests/daemon/luxid", "tests/crash")),
    Row(
        ("daemons/luxid/core/choice/", "daemons/luxid/core/filters/"),
        ("tests/unit/luxid/choice", "tests/unit/luxid/queue"),
        ("tests/property/luxid", "tests/daemon/luxid/choice"),
    ),
    Row(
        ("daemons/luxid/core/copies/", "daemons/luxid/copying/", "daemons/luxid/replicating/"),
        ("tests/unit/luxid/copies",),
        ("tests/property/luxid", "tests/daemon/luxid/lease", "tests/crash"),
    ),
    Row(
        ("daemons/luxid/core/past/", "daemons/luxid/history/"),
        ("tests/unit/luxid/past",),
        ("tests/daemon/luxid/queries",),
    ),
    Row(("daemons/luxid/core/query/",), ("tests/unit/luxid/query",), ("tests/daemon/luxid/queries",)),
    Row(("daemons/luxid/core/queue/",), ("tests/unit/luxid/queue",), ("tests/property/luxid", "tests/daemon/luxid")),
    Row(("daemons/wconfd/",), ("tests/unit/wconfd",), ("tests/property/wconfd", "tests/daemon/wconfd", "tests/crash")),
    Row(("daemons/jobproc/",), ("tests/unit/jobproc",), ("tests/daemon/jobproc", "tests/crash")),
    Row(("daemons/noded/",), ("tests/unit/noded",), ("tests/property/noded", "tests/daemon/noded")),
    Row(
        ("daemons/keeperd/",),
        ("tests/unit/keeperd",),
        ("tests/property/keeperd", "tests/daemon/keeperd", "tests/lease"),
    ),
    Row(("daemons/rapid/",), ("tests/unit/rapid",), ("tests/property/rapid", "tests/daemon/rapid")),
    Row(("daemons/rapid/page/",), ("tests/unit/rapid/page",), ("tests/daemon/rapid", "tests/browser")),
    Row(("daemons/mond/",), ("tests/unit/mond",), ("tests/daemon/mond",)),
    Row(("daemons/launcher/",), ("tests/unit/launcher",), ("tests/daemon/launcher",)),
    Row(("daemons/supervisor/",), ("tests/unit/supervisor",), ("tests/daemon/supervisor",)),
    Row(("cli/",), ("tests/unit/cli",), ("tests/cli",)),
    Row(("cli/manual/",), ("tests/unit/cli/manual",)),
    Row(("protocol/plans/",), ("tests/unit/protocol/plans",), ("tests/property/test_plans.py", "tests/cli/verbs/job")),
    Row(("cli/remote.py",), ("tests/unit/cli/remote",), ("tests/cli/remote",)),
    Row(
        ("deploy/",),
        ("tests/unit/systemd", "tests/unit/package", "tests/unit/common/test_settings.py"),
        ("tests/systemd",),
    ),
    Row(("deploy/monitoring/",), ("tests/unit/rapid/metrics",), ("tests/monitoring",)),
    Row(("docs/",), ("tests/unit/guide", "tests/unit/test_drawings.py"), ("tests/guide",)),
    Row(("CONTRIBUTING.md", "Makefile"), ("tests/unit/test_contributing.py",)),
)


def table() -> str:
    """The map as CONTRIBUTING.md has it."""
    rows = ["| changed | `make quick` runs | before a commit, run, too |", "|---|---|---|"]
    for row in MAP:
        cells = (", ".join(f"`{path}`" for path in paths) for paths in row)
        rows.append(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    return "\n".join(rows)


def row_of(path: str) -> Row | None:
    """The row of a file; None: it is in none, such as a test."""
    found = [(len(each), row) for row in MAP for each in row.changed if path.startswith(each)]
    return max(found, key=lambda match: match[0])[1] if found else None


def to_run(paths: Iterable[str]) -> list[str]:
    """The unit tests of changed files; a unit test that has changed itself, too."""
    found = set(ALWAYS)
    for path in paths:
        if path.startswith("tests/unit/"):
            # what several tests share is run with them
            is_test = path.rpartition("/")[2].startswith("test_")
            found.add(path if is_test else path.rpartition("/")[0])
        elif row := row_of(path):
            found |= {*row.unit}
    return sorted(each for each in found if not any(each.startswith(f"{other}/") for other in found))


def further(paths: Iterable[str]) -> list[str]:
    """Tests of changed files that are left for later, in the order of the map."""
    rows = [row for path in paths if (row := row_of(path))]
    changed = [path for path in paths if "/test_" in path and not path.startswith("tests/unit/")]
    found = dict.fromkeys([*(each for row in rows for each in row.more), *changed])
    return [each for each in found if not any(each.startswith(f"{other}/") for other in found)]


def changed_files(base: str) -> list[str]:
    """What differs from the base and is still there, also what git does not know yet."""
    listed = _git("diff", "--name-only", base) + _git("ls-files", "--others", "--exclude-standard")
    return sorted({path for path in listed if (CHECKOUT / path).exists()})


def base_of_branch() -> str:
    """Where this branch left main; HEAD: there is no main."""
    return (_git("merge-base", "HEAD", "main") or ["HEAD"])[0]


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def main(arguments: Sequence[str]) -> int:
    if "--map" in arguments:
        print(table())
        return 0
    began = time.monotonic()
    changed = changed_files(arguments[0] if arguments else base_of_branch())
    tests = [path for path in to_run(changed) if (CHECKOUT / path).exists()]
    code = [path for path in changed if path.endswith((".py", ".toml"))]
    commands = [["pytest", "-q", "-x", "-n", "2", *tests]]
    if code:
        commands += [["mypy"], ["lint-imports"], ["ruff", "check", "."], ["ruff", "format", "--check", "."]]
    # the longest one first
    running = [
        (words, subprocess.Popen([str(BIN / words[0]), *words[1:]], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True))
        for words in commands
    ]
    failed = False
    for words, process in reversed(running):
        told, _ = process.communicate()
        print(f"== {' '.join(words)}: {'failed' if process.returncode else 'passed'}", flush=True)
        if process.returncode:
            failed = True
            print(told, flush=True)
    print(f"\n{len(changed)} changed files, {time.monotonic() - began:.0f} s")
    if more := further(changed):
        print(f"before a commit, run: pytest -n 2 {' '.join(more)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
