"""One collector: which arrays of software RAID a node has, and whether a disk of one is missing."""

import re
from pathlib import Path

from daemons.mond.collectors.base import Collector, Measured
from daemons.mond.core.reports import Category, CollectorStatus, Number, ReportKind, StatusCode, worst

MDSTAT = Path("/proc/mdstat")
# "md0 : active raid1 sda1[0] sdb1[1]", and in the next line "[2/1] [U_]": disks wanted and there
ARRAY = re.compile(r"^(md\S+) : (\w+).*\n.*\[(\d+)/(\d+)\]", re.MULTILINE)


class Raid(Collector):
    NAME = "raid"
    CATEGORY = Category.STORAGE
    KIND = ReportKind.STATUS
    INTERVAL_S = 30.0

    def collect(self) -> Measured:
        """Read the kernel's report; an error of that becomes the text of ours."""
        arrays, numbers, statuses = [], [], []
        for name, state, disks, there in ARRAY.findall(MDSTAT.read_text() if MDSTAT.exists() else ""):
            missing = int(disks) - int(there)
            arrays.append({"name": name, "state": state, "disks": int(disks), "missing": missing})
            numbers.append(Number("site_raid_missing_disks", missing, {"array": name}, "Disks that are missing"))
            text = f"{name} lacks {missing} of {disks} disks"
            statuses.append(CollectorStatus(StatusCode.BAD, text) if missing else CollectorStatus(StatusCode.OK))
        return Measured({"arrays": arrays}, numbers, worst(statuses))
