"""make test-monitoring: check alert rules, dashboard and a sample of /metrics by promtool of Prometheus.

The rules are checked, and tried on the stories of `alerts.test.yml`. Each question of the dashboard is checked as if it
were a rule. promtool is the one on the PATH, else that of Debian's package, from which it is unpacked into .venv.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from daemons.rapid.metrics.scraping import write
from tests.monitoring.questions import DASHBOARD, RULES, questions
from tests.unit.rapid.metrics.numbers import ALL

CHECKOUT: Final = Path(__file__).resolve().parents[2]
STORIES: Final = Path(__file__).with_name("alerts.test.yml")
UNPACKED: Final = CHECKOUT / ".venv" / "promtool"
# what Grafana puts in place of its variables
_INSTEAD: Final = {"$__rate_interval": "1m", "$cluster": ".*"}


def main() -> None:
    tool = promtool()
    run(tool, "check", "rules", str(RULES))
    run(tool, "test", "rules", str(STORIES))
    with tempfile.TemporaryDirectory(prefix="gantry-monitoring-") as folder:
        run(tool, "check", "rules", str(as_rules(Path(folder))))
    found = subprocess.run([tool, "check", "metrics"], input=write(ALL.families())[0], capture_output=True, check=False)
    if found.returncode or found.stderr:
        sys.exit(f"/metrics is not as Prometheus wants it:\n{found.stderr.decode()}{found.stdout.decode()}")
    print("rules, dashboard and /metrics are well")


def promtool() -> str:
    """The path of the tool; unpacks it if it is nowhere."""
    if (path := shutil.which("promtool")) is not None:
        return path
    tool = UNPACKED / "usr" / "bin" / "promtool"
    if not tool.exists():
        UNPACKED.mkdir(parents=True, exist_ok=True)
        if subprocess.run(["apt-get", "download", "prometheus"], cwd=UNPACKED, capture_output=True).returncode:
            # the lists of packages may be old, or missing
            subprocess.run(["apt-get", "update", "-q"], check=True, capture_output=True)
            subprocess.run(["apt-get", "download", "prometheus"], cwd=UNPACKED, check=True, capture_output=True)
        (package,) = UNPACKED.glob("prometheus_*.deb")
        content = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(package)], check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "./usr/bin/promtool"], cwd=UNPACKED, input=content, check=True)
        package.unlink()
    return str(tool)


def as_rules(folder: Path) -> Path:
    """A file of rules with all questions of the dashboard. JSON is YAML, too."""
    rules = [{"record": f"question:{number}", "expr": _filled(text)} for number, text in enumerate(questions())]
    path = folder / f"{DASHBOARD.stem}.yml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    return path


def _filled(question: str) -> str:
    for variable, value in _INSTEAD.items():
        question = question.replace(variable, value)
    return question


def run(*command: str) -> None:
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        sys.exit(f"{' '.join(command)}:\n{found.stdout}{found.stderr}")
    print(found.stdout.strip())


if __name__ == "__main__":
    main()
