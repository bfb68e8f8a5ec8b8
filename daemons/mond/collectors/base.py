"""What a collector is, also one of a plug-in package.

    class Raid(Collector):
        NAME = "raid"
        CATEGORY = Category.STORAGE
        KIND = Kind.STATUS

        def collect(self) -> Found:
            return Found({"arrays": []}, status=Status(StatusCode.OK))

A package names its module by an entry point in the group `gantry.collectors`.

Source: DESIGN section 13; mond.md 3.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs

from common.settings import Settings
from daemons.mond.core.reports import Category, CollectorAbout, CollectorStatus, Number, ReportKind


@attrs.frozen
class Measured:
    """What a collector has found."""

    # JSON-able; an object if there is a status, which becomes its key `status`
    data: Mapping[str, object] | Sequence[object]
    # the same for Prometheus
    numbers: Sequence[Number] = ()
    # of collectors of the kind STATUS
    status: CollectorStatus | None = None


class Collector:
    """One collector; there is one object of each class for the life of the daemon. Args: settings: of this node."""

    NAME: ClassVar[str]
    CATEGORY: ClassVar[Category | None] = None
    KIND: ClassVar[ReportKind] = ReportKind.PERFORMANCE
    # B: comes with the program
    VERSION: ClassVar[str] = "1"
    # seconds between two calls of `collect`, unless the cluster's configuration says otherwise
    INTERVAL_S: ClassVar[float] = 5.0
    # seconds after which a call is given up: the thread is left behind, and its result is dropped
    LIMIT_S: ClassVar[float] = 5.0

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @classmethod
    def about(cls) -> CollectorAbout:
        return CollectorAbout(cls.NAME, cls.CATEGORY, cls.KIND, cls.VERSION)

    def collect(self) -> Measured:
        """Collect once. Called in a thread, never twice at a time; an exception becomes the text of the report."""
        raise NotImplementedError
