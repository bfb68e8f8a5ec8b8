"""The questions that dashboard and alerts ask of Prometheus."""

import json
from pathlib import Path
from typing import Any, Final

MONITORING: Final = Path(__file__).resolve().parents[2] / "deploy" / "monitoring"
DASHBOARD: Final = MONITORING / "gantry-dashboard.json"
RULES: Final = MONITORING / "gantry-alerts.yml"


def panels() -> list[dict[str, Any]]:
    """The panels of the dashboard, in order."""
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def questions() -> list[str]:
    """The questions of the dashboard."""
    return [target["expr"] for panel in panels() for target in panel.get("targets", ())]
