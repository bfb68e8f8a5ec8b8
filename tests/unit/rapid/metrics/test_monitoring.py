"""Dashboard and alerts ask for numbers that there are (deploy/monitoring; DESIGN section 15)."""

import itertools
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from daemons.rapid.metrics.scraping import write
from tests.monitoring.questions import RULES, panels, questions
from tests.unit.rapid.metrics.numbers import ALL

NAME = re.compile(r"\bgantry_[a-z0-9_]+")
# labels that Prometheus or its configuration adds, and the bound of a histogram
ADDED = {"cluster", "instance", "le"}


@pytest.fixture(scope="module")
def exported() -> dict[str, set[str]]:
    """The names of samples, each with its labels."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(write(ALL.families())[0].decode()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def asked_of(texts: list[str]) -> list[tuple[str, set[str]]]:
    """Each name in a question, with the labels that the question compares or sorts by."""
    found = []
    for text in texts:
        grouped = {label.strip() for group in re.findall(r"\bby \(([^)]*)\)", text) for label in group.split(",")}
        for name, matchers in re.findall(r"\b(gantry_[a-z0-9_]+)(\{[^}]*\})?", text):
            compared = set(re.findall(r"(\w+)\s*=~?", matchers))
            found.append((name, compared | grouped))
    return found


@pytest.mark.parametrize("texts", [questions(), [RULES.read_text()]], ids=["dashboard", "alerts"])
def test_every_name_that_is_asked_for_is_exported(exported: dict[str, set[str]], texts: list[str]) -> None:
    names = {name for text in texts for name in NAME.findall(text)}

    assert len(names) > 10
    assert names - set(exported) == set()


def test_every_label_that_the_dashboard_asks_for_is_one_of_its_number(exported: dict[str, set[str]]) -> None:
    asked = asked_of(questions())

    assert asked
    assert [(name, labels - exported[name] - ADDED) for name, labels in asked if labels - exported[name] - ADDED] == []


def test_panels_have_ids_and_places_of_their_own() -> None:
    ids = [panel["id"] for panel in panels()]
    assert len(ids) == len(set(ids))

    cells: list[tuple[int, int]] = []
    for place in (panel["gridPos"] for panel in panels()):
        assert place["x"] + place["w"] <= 24
        columns = range(place["x"], place["x"] + place["w"])
        cells += itertools.product(columns, range(place["y"], place["y"] + place["h"]))
    assert len(cells) == len(set(cells))


def test_every_alert_says_what_is_wrong_and_how_bad_it_is() -> None:
    alerts = re.split(r"^      - alert: ", RULES.read_text(), flags=re.M)[1:]

    assert len(alerts) > 10
    for alert in alerts:
        assert re.search(r"severity: (critical|warning)$", alert, re.M), alert
        assert re.search(r"summary: ", alert), alert
        assert re.search(r"description: ", alert), alert
