"""What our programs do otherwise than Ganeti's in single calls, and why; by script.

A call stands here by its name, with what ours ends with; what is none of it is Ganeti's.
"""

from collections.abc import Mapping
from typing import Final

import attrs

from common.system.program import release
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
    "gnt-group add --dry-run g9": Difference(NO_LINE, err=""),
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
NONE: Final = "none removes a value, as the option's help says; Ganeti's own command refuses that word of its help"
FIELDS: Final = ("name", "gateway", "network6", "gateway6", "mac_prefix", "external_reservations")
NETWORKS: Final[Mapping[str, Difference]] = {
    "gnt-network add --network 10.77.0.0/24 --tags lab,rack:1 -m aa:00:55 back": Difference(
        "nodes are told by name, and a node with one address once",
        err="".join(
            f"CTIME - INFO: Reserved {what}\n"
            for what in (
                "IP address of node 'node1.rg.test' (10.77.0.1)",
                "IP address of node 'node2.rg.test' (10.77.0.2)",
                "IP address of node 'node3.rg.test' (10.77.0.3)",
                "cluster master IP address (10.77.0.100)",
            )
        ),
    ),
    "gnt-network add --network 192.0.2.0/28 --network6 2001:db8:: six2": Difference(
        "an IPv6 network has a prefix length, as an IPv4 one", code=1, err="error"
    ),
    "gnt-network add nothing": Difference(USAGE, code=2),
    "gnt-network list --no-headers -o name 'mac_prefix == \"aa:00:55\"'": Difference(
        "a filter does not match what has no value",
        out="back\n",
        err="note: left out 4 networks: field 'mac_prefix', by which the filter judges, has no value there\n",
    ),
    "gnt-network list-fields name gateway": Difference(
        OWN_WORDS,
        out="NAME TYPE TITLE DESCRIPTION\nname Text Network name of the network\n"
        "gateway Custom Gateway gateway of the IPv4 range\n",
    ),
    "gnt-network list-fields shape": Difference(
        OWN_WORDS, out="NAME TYPE TITLE DESCRIPTION\nshape Unknown shape there is no field 'shape'\n"
    ),
    "gnt-network info nosuch": Difference("an unknown network is an error, as in the list", code=1, err="error"),
    "gnt-network connect -N mode=pool,link=br0 six default": Difference(
        "'pool' says where an address comes from; an interface cannot be connected so", code=1, err="error"
    ),
    "gnt-network connect -N shape=x six default": Difference(
        "an unknown parameter is an error, as in all options; Ganeti's ignores it", code=2, err="error"
    ),
    "gnt-network modify --gateway none front": Difference(NONE, code=0, err=""),
    "gnt-network modify --gateway6 none --network6 none -m none front": Difference(NONE, code=0, err=""),
    "gnt-network modify front": Difference(USAGE, code=2, err="error"),
    f"gnt-network list --separator=: -o {','.join(FIELDS)} front": Difference(
        NONE,
        out="Network:Gateway:IPv6Subnet:IPv6Gateway:MacPrefix:ExternalReservations\n"
        "front:-:-:-:-:192.0.2.0, 192.0.2.11, 192.0.2.15\n",
    ),
    "gnt-network list --no-headers -o name": Difference("six2 was not added, see above", out="free\nlater\nsix\n"),
}
PROC: Final = "the machines of the recording lack a part of /proc, and one machine has no nodes to ask"
GROUP_STEPS: Final = (
    *("* Verifying group 'default'", "* Gathering data (3 nodes)", "* Gathering information about nodes (3 nodes)"),
    *(
        "* Gathering disk information (3 nodes)",
        "* Verifying configuration file consistency",
        "* Verifying node status",
    ),
    *("* Verifying instance status", "* Verifying orphan volumes", "* Verifying N+1 Memory redundancy"),
    *("* Other Notes", "* Hooks Results"),
)
CONFIG_STEPS: Final = (
    *("* Verifying cluster config", "* Verifying cluster certificate files", "* Verifying hypervisor parameters"),
    "* Verifying all nodes belong to an existing group",
)
ALL_STEPS: Final = "".join(f"CTIME {step}\n" for step in (*CONFIG_STEPS, *GROUP_STEPS))
CLUSTER: Final[Mapping[str, Difference]] = {
    "gnt-cluster version": Difference(
        "our own versions",
        out=f"Software version: {release()}\nInternode protocol: 3000000\nConfiguration format: 3000000\n"
        f"OS api version: 20\nExport interface: 0\nVCS version: {release()}\n",
    ),
    "gnt-cluster verify": Difference(
        "without options the files of this node are checked at once; --by-jobs does as Ganeti's",
        code=0,
        out="CHECK RESULT\n"
        + "".join(
            f"{name} ok\n"
            for name in (
                *("configuration", "config.data", "locks.data", "queue", "sockets", "livelocks", "disk", "processes"),
                "lost jobs",
            )
        ),
        err="",
    ),
    "gnt-cluster verify --error-codes": Difference(PROC, code=0, err=ALL_STEPS),
    "gnt-cluster verify --error-codes --ignore-errors ECLUSTERCFG": Difference(PROC, code=0, err=ALL_STEPS),
    "gnt-cluster verify --node-group default": Difference(
        PROC, code=0, err="".join(f"CTIME {step}\n" for step in GROUP_STEPS)
    ),
    "gnt-cluster verify --node-group nosuch": Difference(
        "an unknown group is noticed before jobs are submitted", out=""
    ),
    "gnt-cluster modify": Difference(USAGE, code=2, err="error"),
    "gnt-cluster modify --candidate-pool-size=2": Difference(
        "too many candidates are told",
        err="CTIME warning: there are 3 master candidates; end some with: gnt-node modify -C no NODE\n",
    ),
    "gnt-cluster modify -B minmem=1024": Difference(
        "the least memory must not exceed the most; Ganeti's writes that down", code=1, err="error"
    ),
    "gnt-cluster modify --uid-pool x": Difference(USAGE, code=2),
    "gnt-cluster modify --hidden-os +lenny,-etch": Difference(
        "an option of ours; Ganeti has it in gnt-os",
        code=0,
        err="CTIME OS etch not found in hidden OS list, ignoring\n",
    ),
    "gnt-cluster modify --blacklisted-os +lenny": Difference(
        "an option of ours; Ganeti has it in gnt-os", code=0, err=""
    ),
    "gnt-cluster modify --enabled-data-collectors shape=0": Difference("told by one error", err="error"),
    "gnt-cluster modify --data-collector-interval lv=9": Difference("Ganeti's command ends with a bug", code=0, err=""),
    "gnt-cluster redist-conf": Difference(
        "nothing is copied in this test, which is told",
        err="".join(
            f'CTIME warning:the configuration has not reached node "node{number}.rg.test"; '
            '"replication" in "[cluster]" is "none"\n'
            for number in (2, 3)
        ),
    ),
}
BY_SCRIPT: Final[Mapping[str, Mapping[str, Difference]]] = {
    "cluster": CLUSTER,
    "groups": GROUPS,
    "networks": NETWORKS,
}
