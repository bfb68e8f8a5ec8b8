"""Reference of the metrics for Prometheus."""

from collections.abc import Sequence
from typing import Final

from cli.manual.page import Definition, Definitions, Literal, Page, PageLink, Paragraph, Section, paragraph
from common.reference.daemonfacts import MetricFacts

_ABOUT: Final = (
    "gantry-rapid(8) serves these numbers under `/metrics`, in the text form of Prometheus; it asks the daemons at "
    "each request. gantry-mond(8) has a `/metrics` of its own with what a node measures of itself. "
    "`deploy/monitoring` has alerts and a dashboard."
)


def metrics_page(metrics: Sequence[MetricFacts]) -> Page:
    links = (PageLink("gantry-rapid", 8), ", ", PageLink("gantry-mond", 8), ", ", PageLink("gantry-status", 1))
    return Page(
        "gantry-metrics",
        7,
        "metrics for Prometheus",
        (
            Section("Description", (paragraph(_ABOUT),)),
            Section("Metrics", (Definitions(tuple(map(_metric, metrics))),)),
            Section("See also", (Paragraph(links),)),
        ),
    )


def _metric(metric: MetricFacts) -> Definition:
    labels = f" Labels: {', '.join(f'`{label}`' for label in metric.labels)}." if metric.labels else ""
    return Definition((Literal(metric.name),), (paragraph(f"{metric.text} {metric.kind.capitalize()}.{labels}"),))
