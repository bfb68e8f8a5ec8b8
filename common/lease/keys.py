"""The names of what Gantry keeps in etcd.

Theory. One key says who is the master, and goes with its lease. One counts epochs, and stays. All changes that some
candidate may lack lie under `dirty/` and `config/`; each is put in a transaction that compares the first two keys
(`common.lease.fence`), so that nobody but the present master can write them.

Source: DESIGN section 14; lease.md 4.
"""

import attrs

from common.ids import JobId


@attrs.frozen
class Keys:
    """Args: prefix: of all keys of this cluster, such as `/gantry/`."""

    prefix: str

    @property
    def master(self) -> str:
        """Who is the master (`records.MasterRecord`); under the master's lease."""
        return f"{self.prefix}master"

    @property
    def epoch(self) -> str:
        """The number of the last mastership, as text; no lease."""
        return f"{self.prefix}epoch"

    @property
    def last_master(self) -> str:
        """Who was the master last, and whether it ended cleanly (`records.LastMaster`); no lease."""
        return f"{self.prefix}last-master"

    @property
    def wanted(self) -> str:
        """What an operator asks of the master (`records.Wanted`)."""
        return f"{self.prefix}wanted"

    @property
    def verdict(self) -> str:
        """What became of an operator's last wish (`records.Verdict`)."""
        return f"{self.prefix}verdict"

    @property
    def maintenance(self) -> str:
        """Whether the mastership stays where it is (`records.Maintenance`)."""
        return f"{self.prefix}maintenance"

    @property
    def accepted(self) -> str:
        """The last acceptance of a restored etcd (`records.Accepted`)."""
        return f"{self.prefix}accepted"

    @property
    def history(self) -> str:
        """The last changes of the master, a list of `records.Change`."""
        return f"{self.prefix}history"

    @property
    def upkeep(self) -> str:
        """Put now and then while etcd fills up: it counts compacted space as free only when something changes."""
        return f"{self.prefix}upkeep"

    @property
    def members(self) -> str:
        """The beginning of the keys of all members."""
        return f"{self.prefix}member/"

    def member(self, node: str) -> str:
        """What a candidate says of itself (`records.MemberRecord`); under a lease of its own."""
        return f"{self.members}{node}"

    @property
    def stales(self) -> str:
        return f"{self.prefix}stale/"

    def stale(self, node: str) -> str:
        """There while a candidate was away so long that nothing is kept for it: it may not become the master."""
        return f"{self.stales}{node}"

    @property
    def synceds(self) -> str:
        return f"{self.prefix}synced/"

    def synced(self, node: str) -> str:
        """The epoch of the last master that has compared all files of this candidate with its own, as text."""
        return f"{self.synceds}{node}"

    @property
    def dirty(self) -> str:
        """The beginning of the keys of files that some candidate may lack, by their names below the data folder."""
        return f"{self.prefix}dirty/"

    @property
    def config(self) -> str:
        """The beginning of the keys of changed objects of the configuration."""
        return f"{self.prefix}config/"

    @property
    def running(self) -> str:
        return f"{self.prefix}running/"

    def running_job(self, job_id: JobId) -> str:
        """There while a process may write the job's file (`records.RunningJob`)."""
        return f"{self.running}{job_id}"

    @property
    def parts(self) -> str:
        """The beginning of the keys of parts of large changes (`common.lease.packing`)."""
        return f"{self.prefix}parts/"

    def parts_of(self, writer: str) -> str:
        """Those of the changes of one daemon."""
        return f"{self.parts}{writer}/"

    def sequence(self, writer: str) -> str:
        """Which transaction of a daemon was its last; each moves it, so that one that arrives late is refused."""
        return f"{self.prefix}sequence/{writer}"

    @property
    def kept(self) -> str:
        """The beginning of the keys of small files that stay here for ever, by their names below the data folder."""
        return f"{self.prefix}kept/"

    @property
    def config_base(self) -> str:
        """The serial number that each candidate's configuration must have reached, as text."""
        return f"{self.kept}config.base"
