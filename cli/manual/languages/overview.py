"""The page gantry(7): what Gantry is, its words, and where to read on."""

from collections.abc import Mapping, Sequence
from typing import Final

from cli.manual.commands.surroundings import FILES, described
from cli.manual.page import Block, Definition, Definitions, Literal, Page, PageLink, Paragraph, Section, paragraph

_WORDS: Final[Mapping[str, str]] = {
    "job": "An ordered list of opcodes, with an id, a file and a process of its own.",
    "opcode": "One operation, such as to run a command: gantry-opcodes(7).",
    "queued, waiting, running": "The states of a job that has not ended: it has no process yet; its process waits for "
    "locks; it works.",
    "success, error, canceled": "The states of a job that has ended.",
    "lock": "A name such as `node/web1` that a job holds exclusively, or shares with others. A job gets the locks of "
    "an opcode together, and frees them at its end.",
    "filter rule": "Who may run: a rule accepts, delays, refuses or limits the jobs that its filter hits: "
    "gantry-filters(7).",
    "resource": "Units, such as licences or memory, of which each job takes some while it runs: gantry-resource(1).",
    "schedule": "A job that is submitted again and again: gantry-schedule(1).",
    "batch": "Jobs that were submitted together, for several nodes or values: gnt-job-batch(1).",
    "master, candidates": "The node whose daemons hold the queue, and the nodes that have copies of it.",
}
_DAEMONS: Final[Mapping[str, str]] = {
    "gantry-luxid": "keeps the queue, decides which jobs begin, and answers the programs.",
    "gantry-wconfd": "keeps locks and configuration.",
    "gantry-forkserver": "makes the process of each job.",
    "gantry-noded": "serves the master on every node, if there are several.",
    "gantry-keeperd": "holds the mastership under a lease in etcd.",
    "gantry-rapid": "serves HTTP: programs on other machines, and the web page.",
    "gantry-confd": "answers signed questions about the configuration.",
    "gantry-mond": "tells what a node measures of itself.",
    "gantry-launcher": "starts commands as other users, where root wants that.",
    "gantry-supervisor": "keeps the daemons running where systemd does not.",
}


def overview_page(pages: Sequence[Page]) -> Page:
    """Args: pages: all others."""
    return Page(
        "gantry",
        7,
        "the job engine of a cluster",
        (
            Section("Description", tuple(map(paragraph, _ABOUT))),
            Section("Words", (Definitions(described(_WORDS)),)),
            Section("Daemons", (Definitions(_daemons({page.link for page in pages})),)),
            Section("Files", (FILES,)),
            Section("See also", tuple(_see_also(pages))),
        ),
    )


_ABOUT: Final = (
    "Gantry takes jobs, keeps each as a file, decides which may run, and starts a process for each. A job runs under "
    "locks, after the jobs that it depends on, and is never lost: whatever is killed, an acknowledged job is queued, "
    "running or ended, and nothing runs twice.",
    "The programs talk to the daemons over Unix sockets, and none of them changes a file of the queue by itself. "
    "'gantry up' starts all daemons of an empty folder; a package starts them by systemd. gantry(1) has all programs "
    "as groups of verbs; those whose names begin with gnt- are the same groups under the names of Ganeti's tools.",
    "Every program has `--help`, and `--output json` for programs that read its output.",
)


def _daemons(known: set[PageLink]) -> tuple[Definition, ...]:
    links = {name: PageLink(name, 8) for name in _DAEMONS}
    return tuple(
        Definition((links[name] if links[name] in known else Literal(name),), (paragraph(text),))
        for name, text in _DAEMONS.items()
    )


def _see_also(pages: Sequence[Page]) -> list[Block]:
    """The pages but those of verbs."""
    chosen = [
        page.link for page in pages if page.volume != 1 or page.name.count("-") < (2 if page.name[1] == "n" else 1)
    ]
    return [Paragraph(tuple(span for link in chosen for span in (link, ", "))[:-1])]
