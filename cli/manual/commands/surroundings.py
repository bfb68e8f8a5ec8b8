"""What all programs share: their environment, their files, and the pages that explain the words of their options."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from cli.manual.page import Definition, Definitions, Literal, PageLink, paragraph
from common.settingsfile import ROOT_VARIABLE, SYSTEM_FILE, SYSTEM_PATHS


def described(rows: Mapping[str, str]) -> tuple[Definition, ...]:
    """Args: rows: what is typed -> what it means."""
    return tuple(Definition((Literal(name),), (paragraph(text),)) for name, text in rows.items())


ENVIRONMENT: Final = described(
    {
        ROOT_VARIABLE: "Folder of the installation, as --root.",
        "GANTRY_SESSION": "Name of a session of its own for PREV, the last submission; else there is one a terminal.",
        "GANTRY_DEBUG": "If it is set, an error is shown with the place in the program where it came up.",
        "GANTRY_PAGER": "Command that shows long tables on a terminal, in place of PAGER, less or more; empty: none.",
        "NO_COLOR": "If it is set, there are no colours.",
        "XDG_STATE_HOME": "Folder in which the last submissions are noted; `~/.local/state` if it is not set.",
    }
)
REMOTE_ENVIRONMENT: Final = described(
    {
        "GANTRY_REMOTE": "URL of the cluster of another machine, as --remote. Programs without it are refused.",
        "GANTRY_TOKEN": "Token for it. See --token-file, which other users' lists of processes do not show.",
        "GANTRY_PASSWORD": "Password for the user that the URL names; without it a terminal is asked.",
        "GANTRY_CA": "File of certificates that are trusted, as --ca.",
        "GANTRY_FINGERPRINT": "The one certificate that is trusted, as --fingerprint.",
    }
)
FILES: Final = Definitions(
    described(
        {
            str(SYSTEM_FILE): "Settings of the system's installation: gantry.toml(5).",
            "DIR/gantry.toml": "Settings of the installation in the folder of --root.",
            str(SYSTEM_PATHS.data): "Queue, locks, configuration and outputs; of a private installation DIR/lib.",
            str(SYSTEM_PATHS.run): "Sockets and livelocks; of a private installation DIR/run.",
            str(SYSTEM_PATHS.log): "Logs, which 'gantry logs' puts together; of a private installation DIR/log.",
        }
    )
)

_FILTERS: Final = PageLink("gantry-filters", 7)
_FIELDS: Final = PageLink("gantry-fields", 7)
_OPCODES: Final = PageLink("gantry-opcodes", 7)
_PLAN: Final = PageLink("gantry-plan", 5)
# what stands for the value of an option -> the page that explains it
_VALUES: Final[Mapping[str, PageLink]] = {"FILTER": _FILTERS, "FIELDS": _FIELDS}
_PAGES: Final[Mapping[str, tuple[PageLink, ...]]] = {
    "gantry": (PageLink("gantry", 7), PageLink("gantry.toml", 5)),
    "gantry-up": (PageLink("gantry.toml", 5), PageLink("gantry-supervisor", 8), PageLink("gantry-down", 1)),
    "gantry-down": (PageLink("gantry-up", 1),),
    "gantry-status": (PageLink("gantry-logs", 1), PageLink("gantry.toml", 5)),
    "gantry-prune": (PageLink("gantry.toml", 5),),
    "gantry-help": (PageLink("gantry", 7),),
    "gantry-schedule-add": (_PLAN, PageLink("gnt-job-run", 1)),
    "gnt-job-run": (PageLink("gnt-job-submit", 1), PageLink("gnt-job-why", 1), _OPCODES),
    "gnt-job-submit": (_PLAN, _OPCODES, PageLink("gnt-job-run", 1)),
    "gnt-job-list": (_FILTERS, _FIELDS),
    "gnt-job-history": (_FILTERS, _FIELDS),
    "gnt-job-why": (PageLink("gnt-debug-locks", 1), PageLink("gantry-errors", 7)),
    "gnt-filter-add": (PageLink("gantry-query", 7),),
    "gnt-filter-replace": (PageLink("gantry-query", 7),),
    "gnt-debug-simulate": (PageLink("gantry-simulate", 1),),
}


def related(name: str, metavars: Collection[str]) -> Iterator[PageLink]:
    """The pages that a reader of this program's page may want next.

    Args: metavars: what stands for the values of its options.
    """
    yield from _PAGES.get(name, ())
    yield from (link for metavar, link in _VALUES.items() if metavar in metavars)
    if "list-fields" in name:
        yield _FIELDS
    yield PageLink("gantry", 7)
