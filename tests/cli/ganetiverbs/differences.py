"""What our programs do otherwise than Ganeti's in single calls, and why; by script.

A call stands here by its name, with what ours ends with; what is none of it is Ganeti's.
"""

from collections.abc import Mapping
from typing import Final

import attrs

from tests.cli.ganetiverbs.comparing import Meaning


@attrs.frozen
class Difference:
    why: str
    # what is otherwise; None: as Ganeti's
    code: int | None = None
    out: str | None = None
    err: str | None = None

    def of(self, theirs: Meaning) -> Meaning:
        ours = {name: getattr(self, name) for name in ("code", "out", "err") if getattr(self, name) is not None}
        assert ours != {name: getattr(theirs, name) for name in ours}, "this is no difference"
        return attrs.evolve(theirs, **ours)


USAGE: Final = "a wrong command line is judged before anything is submitted, and ends with 2"
OWN_WORDS: Final = "the table of fields has our titles and our descriptions"
NO_LINE: Final = "a dry run says nothing, as it has nothing to tell"
EMPTY_LINES: Final = "blank lines of a file of tags do not count"

GROUPS: Final[Mapping[str, Difference]] = {
    "gnt-group add --alloc-policy=perhaps g3": Difference(USAGE, code=2),
    "gnt-group add --dry-run g9": Difference(NO_LINE, out=""),
    "gnt-group list-fields name alloc_policy": Difference(
        OWN_WORDS,
        out="NAME TYPE TITLE DESCRIPTION\nname Text Group name of the group\n"
        "alloc_policy Text AllocPolicy whether new instances may be placed here\n",
    ),
    "gnt-group list-fields shape": Difference(
        OWN_WORDS, out="NAME TYPE TITLE DESCRIPTION\nshape Unknown shape there is no field 'shape'\n"
    ),
    "gnt-group add-tags g5": Difference(USAGE, code=2),
    "gnt-group remove-tags g5": Difference(USAGE, code=2),
    "gnt-group modify -D round:stripes=2 g1": Difference(USAGE, code=2),
    "gnt-group modify --ipolicy-bounds-specs min:cpu-count=1/max:cpu-count=1 g2": Difference(USAGE, code=2),
    "gnt-group modify --node-parameters exclusive_storage=yes first": Difference(
        "yes and no are words for true and false in all our options",
        code=0,
        out='Modified node group first\n - ndparams -> {"exclusive_storage":true}\n',
        err="",
    ),
    "gnt-group modify first": Difference(
        "a change of nothing is a mistake: Ganeti's sends a job that writes the group as it is", code=2, err="error"
    ),
    "gnt-group info nosuch": Difference(
        "an unknown group is an error, as in the list; Ganeti's prints an empty line", code=1, out="", err="error"
    ),
    "gnt-group add ' g'": Difference("a name with blanks at an end cannot be told from another", code=1, err="error"),
    r"gnt-cluster add-tags --from - < 'north\n\n'": Difference(EMPTY_LINES, code=0, err=""),
    "gnt-group assign-nodes first": Difference(
        "no nodes are not all nodes: Ganeti's moves every node of the cluster into the group", code=2, err="error"
    ),
}
BY_SCRIPT: Final[Mapping[str, Mapping[str, Difference]]] = {"groups": GROUPS}
