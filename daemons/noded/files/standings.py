"""How far this node's copies of queue and configuration have come.

Source: DESIGN section 12.
"""

from pathlib import Path

import orjson

from common.errors import DamagedFile
from common.nodes.epochs import read_seen
from common.paths import Paths
from protocol.noded.mastership import Standing


def read_standing(paths: Paths) -> Standing:
    """Raises: DamagedFile, OSError: a copy here cannot be read; one that is missing counts as 0."""
    seen = read_seen(paths.epoch_file)
    return Standing(
        epoch=seen.number,
        epoch_master=seen.master,
        config_serial=_config_serial(paths.config_data),
        queue_serial=_queue_serial(paths.serial_file),
    )


def _config_serial(path: Path) -> int:
    try:
        config = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return 0
    except orjson.JSONDecodeError as error:
        raise DamagedFile(f"the copy of the configuration '{path}' is not JSON: {error}", file=str(path)) from None
    serial = config.get("serial_no") if isinstance(config, dict) else None
    if not isinstance(serial, int):
        raise DamagedFile(f"the copy of the configuration '{path}' has no serial number", file=str(path))
    return serial


def _queue_serial(path: Path) -> int:
    try:
        text = path.read_text("utf-8", "replace").strip()
    except FileNotFoundError:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise DamagedFile(f"'{path}' does not hold the last job id but {text!r:.20}", file=str(path))
    return int(text)
