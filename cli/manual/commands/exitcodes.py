"""The page of exit codes, from the table of the programs."""

from collections.abc import Sequence

from cli.exitcodes import EVERYWHERE, MOVING, WAITING, ExitCode
from cli.manual.page import Definition, Definitions, Literal, Page, PageLink, Paragraph, Section, paragraph


def exit_codes(rows: Sequence[ExitCode]) -> Definitions:
    return Definitions(tuple(Definition((Literal(row.code),), (paragraph(row.meaning),)) for row in rows))


def exit_codes_page() -> Page:
    return Page(
        "gantry-exit-codes",
        7,
        "exit codes of all programs",
        (
            Section("Description", (paragraph(_ABOUT),)),
            Section("All programs", (exit_codes(EVERYWHERE),)),
            Section("gnt-job run --wait and gnt-job submit --wait", (paragraph(_WAITING), exit_codes(WAITING))),
            Section("gantry cluster switchover and takeover", (exit_codes(MOVING),)),
            Section("gantry status --check", (paragraph(_CHECK),)),
            Section("See also", (_SEE,)),
        ),
    )


_ABOUT = (
    "Each program tells by its exit code how it ended, and on standard error why. The codes of the first table are "
    "those of every verb; some verbs have tables of their own."
)
_WAITING = (
    "With `--wait` the program ends as the command of its job. Codes of ours lie where timeout(1) has its own, so that "
    "none can be taken for the command's."
)
_CHECK = (
    "As monitors want it: 0 if all is well, 1 for a warning, 2 if something is critical, 3 if it is not known. "
    "`[health]` in gantry.toml(5) says where a warning begins."
)
_SEE = Paragraph((PageLink("gantry", 7), ", ", PageLink("gnt-job-run", 1)))
