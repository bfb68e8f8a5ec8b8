"""Every URI and verb of Ganeti's interface is there, with Ganeti's rule and with ours.

Source: rapi.md 2 and 5.
"""

import re
from collections import Counter

from common.access import Role
from common.webaccess.rights import Right, Rights
from daemons.rapid.calls import Face
from daemons.rapid.ganeti.ganetirows import rows

# URI -> verbs with the rule: `-` anybody, `R` read or write, `W` write
SHEET = """
/ GET-
/2 GET-
/version GET-
/2/info GET-
/2/features GET-
/2/os GET-
/2/redistribute-config PUTW
/2/modify PUTW
/2/tags GET- PUTW DELETEW
/2/jobs GET-
/2/jobs/N GET- DELETEW
/2/jobs/N/wait GETW
/2/filters GET- POSTW
/2/filters/U GET- PUTW DELETEW
/2/nodes GET-
/2/nodes/N GET-
/2/nodes/N/role GET- PUTW
/2/nodes/N/modify POSTW
/2/nodes/N/powercycle POSTW
/2/nodes/N/evacuate POSTW
/2/nodes/N/migrate POSTW
/2/nodes/N/storage GETW
/2/nodes/N/storage/modify PUTW
/2/nodes/N/storage/repair PUTW
/2/nodes/N/tags GET- PUTW DELETEW
/2/groups GET- POSTW
/2/groups/G GET- DELETEW
/2/groups/G/modify PUTW
/2/groups/G/rename PUTW
/2/groups/G/assign-nodes PUTW
/2/groups/G/tags GET- PUTW DELETEW
/2/networks GET- POSTW
/2/networks/N GET- DELETEW
/2/networks/N/connect PUTW
/2/networks/N/disconnect PUTW
/2/networks/N/modify PUTW
/2/networks/N/rename PUTW
/2/networks/N/tags GET- PUTW DELETEW
/2/instances GET- POSTW
/2/instances-multi-alloc POSTW
/2/instances/I GET- DELETEW
/2/instances/I/info GET-
/2/instances/I/console GETR
/2/instances/I/tags GET- PUTW DELETEW
/2/instances/I/reboot POSTW
/2/instances/I/reinstall POSTW
/2/instances/I/replace-disks POSTW
/2/instances/I/recreate-disks POSTW
/2/instances/I/disk/D/grow POSTW
/2/instances/I/startup PUTW
/2/instances/I/shutdown PUTW
/2/instances/I/activate-disks PUTW
/2/instances/I/deactivate-disks PUTW
/2/instances/I/prepare-export PUTW
/2/instances/I/migrate PUTW
/2/instances/I/failover PUTW
/2/instances/I/rename PUTW
/2/instances/I/modify PUTW
/2/instances/I/export PUTW DELETEW
"""
KINDS = ("group", "export", "instance", "job", "lock", "network", "node", "filter", "cluster", "os")
QUERIES = "".join(f"/2/query/{kind} GETR PUTR\n/2/query/{kind}/fields GET-\n" for kind in KINDS)
RULES = {"-": (), "R": ("read", "write"), "W": ("write",)}


def shape(path: str) -> str:
    return re.sub(r"\{.*?\}|(?<=/)[A-Z](?=/|$)", "*", path)


def test_every_resource_of_the_sheet_is_there_with_its_rule_and_no_other() -> None:
    wanted = {
        (word[:-1], shape(path)): RULES[word[-1]]
        for path, *words in map(str.split, f"{SHEET}{QUERIES}".split("\n")[1:-1])
        for word in words
    }

    found = {(row.verb, shape(row.path)): row.ganeti_rights for row in rows()}

    assert found == wanted
    assert Counter((row.verb, shape(row.path)) for row in rows()).most_common(1)[0][1] == 1


def test_by_our_rule_only_what_tells_nothing_is_for_everybody() -> None:
    for_all = {row.path for row in rows() if not row.rights}

    assert for_all == {"/", "/2", "/version", "/2/features"}


def test_by_our_rule_what_changes_something_takes_more_than_reading() -> None:
    reader = Rights(Role.READ)
    changing = [row for row in rows() if row.changes]

    assert [row.path for row in changing if reader.role_for(row.rights) is not Role.NONE] == []
    assert {row.verb for row in rows() if not row.changes} == {"GET", "PUT"}
    assert {row.path for row in rows() if row.verb == "PUT" and not row.changes} == {
        f"/2/query/{kind}" for kind in KINDS
    }


def test_a_token_to_submit_may_cancel_but_not_change_the_cluster() -> None:
    token = Rights(single=frozenset({Right.JOBS_SUBMIT}))

    may = {(row.verb, row.path) for row in rows() if row.changes and token.role_for(row.rights) is not Role.NONE}

    assert may == {("DELETE", "/2/jobs/{id:number}")}


def test_all_rows_have_ganetis_face_and_a_sentence() -> None:
    assert {row.face for row in rows()} == {Face.GANETI}
    assert [row.path for row in rows() if not re.fullmatch(r"[A-Z].*\.", row.summary)] == []


def test_a_row_names_the_parameters_of_its_query_string() -> None:
    named = {(row.verb, shape(row.path)): {each.name: each.is_required for each in row.parameters} for row in rows()}

    assert named["GET", "/2/nodes"] == {"bulk": False, "lock": False}
    assert named["GET", "/2/query/job"] == {"fields": True}
    assert named["PUT", "/2/tags"] == {"tag": True, "dry-run": False, "reason": False}
    assert named["PUT", "/2/nodes/*/role"] == {"force": False, "auto-promote": False, "reason": False}
    assert named["POST", "/2/nodes/*/migrate"] == {"live": False, "mode": False, "reason": False}
    assert named["PUT", "/2/nodes/*/storage/modify"] == {
        "storage_type": True,
        "name": True,
        "allocatable": False,
        "reason": False,
    }
