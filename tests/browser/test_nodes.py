"""The page of the nodes, with three real node daemons."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.axe import findings
from tests.browser.browser import Browser
from tests.browser.test_watching import held
from tests.support.machines.fleet import Fleet
from tests.support.machines.nodes import HOST
from tests.support.sockets.ports import free_port


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def fleet(tmp_path: Path, port: int) -> Iterator[Fleet]:
    """A master with rapid, and two candidates."""
    rapid = f'[rapid]\nenabled = true\naddress = "{HOST}"\nport = {port}\n'
    with Fleet(tmp_path, 2, cluster=rapid) as fleet:
        users = fleet.master.paths.rapi_users
        users.parent.mkdir(parents=True, exist_ok=True)
        users.write_text("op op-secret operate\n")
        fleet.start()
        fleet.master.start("forkserver", "luxid", "rapid")
        yield fleet


def test_roles_answers_copies_and_jobs_are_told_and_change_without_a_reload(
    fleet: Fleet, port: int, window: Browser, tmp_path: Path
) -> None:
    url = f"https://{HOST}:{port}"
    window.open(f"{url}/ui/login")
    # cookies belong to the page that is open, and its form to them
    window.driver.delete_all_cookies()
    window.open(f"{url}/ui/login")
    window.log_in(url, "op", "op-secret")
    window.wait_for("nav", text="Nodes")
    gate = tmp_path / "gate"
    job = fleet.master.submit(held(gate))
    window.open(f"{url}/ui/nodes")

    rows = "#nodes"
    # job and candidates' copies come with the next reading
    window.wait_for(rows, text=f"job {job}")
    window.wait_for("#nodes tr[id='node-node1.test']", text="master")
    window.wait_for("#nodes tr[id='node-node1.test']", text="queue: its own")
    for name in ("node2.test", "node3.test"):
        row = f"#nodes tr[id='node-{name}']"
        for text in ("candidate", "answers", "queue: complete", "configuration: complete"):
            window.wait_for(row, text=text)
    assert findings(window) == []
    window.mark()

    fleet.nodes[0].kill()
    window.wait_for("#nodes tr[id='node-node2.test']", text="does not answer")
    fleet.change_node(fleet.nodes[1], offline=True, master_candidate=False)
    window.wait_for("#nodes tr[id='node-node3.test']", text="offline")
    other = fleet.master.submit(held(gate))
    window.wait_for("#nodes tr[id='node-node2.test']", text="queue: behind by")

    assert window.is_marked
    gate.touch()
    fleet.master.wait(job, other)
    window.open("about:blank")
    window.console()
