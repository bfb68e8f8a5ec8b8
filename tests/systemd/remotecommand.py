"""A job whose command runs on another node until it is told to end."""

from collections.abc import Sequence
from typing import Final

from tests.support.wait import wait_until
from tests.systemd.engine import LEDGER, PATIENCE_S
from tests.systemd.machines import Machines

_SCRIPT: Final = (
    "echo node=$(hostname) files=$(ulimit -n) nice=$(nice); cat /proc/self/cgroup; echo $$ > {begun}; "
    "until [ -e {go} ]; do sleep 0.2; done; echo ended"
)


class RemoteCommand:
    """Submitted on the master, and acknowledged. Args: options: more of `gnt-job run`."""

    def __init__(self, machines: Machines, master: str, node: str, options: str = "") -> None:
        self._machines = machines
        self._container = machines[node].container
        self.master = master
        place = self._container.check(f"mktemp -d {LEDGER}/XXXXXX; chmod 1777 {LEDGER}/*").split()[0]
        self._begun, self._go = f"{place}/begun", f"{place}/go"
        script = _SCRIPT.format(begun=self._begun, go=self._go)
        self.job = machines[master].job(f"--node {node} --cwd / {options} --shell", f"'{script}'")
        self.groups = ""

    def until_begun(self) -> None:
        wait_until(
            lambda: self._container.run(f"test -s {self._begun}").code == 0,
            what=f"the command of job {self.job} to run",
            timeout_s=PATIENCE_S,
            state=lambda: self._machines[self.master].info(self.job),
        )

    def pid(self) -> int:
        """Raises: AssertionError: it does not run."""
        found = int(self._container.check(f"cat {self._begun}"))
        self._container.check(f"kill -0 {found}")
        self.groups = self._container.check(f"cat /proc/{found}/cgroup")
        return found

    def let_end(self) -> None:
        self._container.check(f"touch {self._go}")

    def output_at_end(self) -> Sequence[str]:
        """Let it end, wait for its job, which must succeed; return the lines of its output."""
        self.let_end()
        master = self._machines[self.master]
        assert master.until_ended([self.job]) == {self.job: "success"}, master.info(self.job)
        return master.container.check(f"gnt-job output {self.job}").splitlines()
