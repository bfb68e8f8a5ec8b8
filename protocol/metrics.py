"""What daemons report of themselves for graphs and alerts: the reply of each `ReadMetrics`. Ours."""

from collections.abc import Mapping

import attrs

from common.errors import ProtocolError
from common.metrics import Distribution, Family, MetricSample, together
from common.shapes import Lenient
from common.system.processuse import ProcessUse


@attrs.frozen
class DaemonMetrics(Lenient):
    """The numbers of one daemon at one instant; metrics have the names of their declarations (`common.metrics`).

    Raises: ProtocolError: the daemon is of another release, and does not report a metric that is asked for.
    """

    process: ProcessUse = attrs.field(factory=ProcessUse)
    families: tuple[Family, ...] = ()

    def number(self, name: str) -> float:
        """A gauge or a counter, summed over its labels."""
        return sum(sample.number for sample in self._samples(name))

    def by(self, name: str) -> Mapping[str, float]:
        """A gauge or a counter by the values of its last label."""
        return {sample.labels[-1]: sample.number for sample in self._samples(name)}

    def distribution(self, name: str, *labels: str) -> Distribution:
        """The histogram with these values of its labels; without any, those of all values together.

        Empty, if nothing was counted there.
        """
        found = (sample.distribution for sample in self._samples(name) if not labels or sample.labels == labels)
        return together(each for each in found if each is not None)

    def _samples(self, name: str) -> list[MetricSample]:
        families = [family for family in self.families if family.metric.name == name]
        if not families:
            raise ProtocolError(f"the daemon reports no '{name}': it is of another release; restart the daemons")
        return [sample for family in families for sample in family.samples]
