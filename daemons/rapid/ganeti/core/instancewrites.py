"""Jobs on instances whose parameters are not just those of the body.

Source: rapi.md 6.9, 7.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from common.errors import InvalidRequest
from common.opcodes.instance import OpInstanceCreate, OpInstanceReinstall
from common.opcodes.instancelife import OpInstanceShutdown, OpInstanceStartup
from daemons.rapid.ganeti.core.bodies import check_names, member, object_of, optional_object, renamed, word_for
from daemons.rapid.ganeti.core.writes import Asking, OpInput, Write, checked, opcode_of

_VERSION: Final = "__version__"
_CREATION_NAMES: Final = {"name": "instance_name", "os": "os_type"}
# parameters in the query string, as old clients have it
OLD_REPLACE: Final = ("remote_node", "mode", "disks", "iallocator")
OLD_REINSTALL: Final = ("os", "nostartup")


def with_usb_devices(given: dict[str, object]) -> dict[str, object]:
    """The parameters with commas between the USB devices."""
    hvparams = given.get("hvparams")
    if not isinstance(hvparams, dict) or not isinstance(hvparams.get("usb_devices"), str):
        return given
    return {**given, "hvparams": {**hvparams, "usb_devices": hvparams["usb_devices"].replace(" ", ",")}}


def create(write: Write, asking: Asking) -> Sequence[OpInput]:
    """Raises: InvalidRequest: the body is of another version, or a parameter is wrong."""
    given = dict(object_of(asking.body))
    version = given.pop(_VERSION, 0)
    if type(version) is not int or version != 1:
        raise InvalidRequest(f"'{_VERSION}' in the body must be 1, got {version!r:.60}")
    return [opcode_of(write, asking, with_usb_devices(renamed(given, _CREATION_NAMES)))]


def create_many(write: Write, asking: Asking) -> Sequence[OpInput]:
    """Each instance is the body of a creation, without a version. Raises: InvalidRequest: one is wrong."""
    given = object_of(asking.body)
    if "instances" not in given:
        raise InvalidRequest("the body lacks 'instances', a list of what to create")
    instances = [_creation(each) for each in member(given, "instances", list, [])]
    return [opcode_of(write, asking, {**given, "instances": instances})]


def _creation(given: object) -> OpInput:
    if not isinstance(given, dict):
        raise InvalidRequest(f"each of 'instances' must be an object, got {word_for(given)}")
    return checked(OpInstanceCreate, with_usb_devices(renamed(given, _CREATION_NAMES)), {})


def reinstall(write: Write, asking: Asking) -> Sequence[OpInput]:
    """Stop the instance, install it and start it again, in one job.

    Raises: InvalidRequest: parameters are in the body and the query string, or wrong.
    """
    given = _from_one_place(asking, OLD_REINSTALL, lambda: _old_reinstall(asking))
    check_names(given, ("os", "start", "osparams", "depends"))
    installed = {"osparams": given.get("osparams")}
    if given.get("os") is not None:
        installed["os_type"] = given["os"]
    depends = {"depends": given["depends"]} if "depends" in given else {}
    ops = [
        opcode_of(write, asking, depends, OpInstanceShutdown),
        opcode_of(write, asking, installed, OpInstanceReinstall),
    ]
    if member(given, "start", bool, True):
        ops.append(opcode_of(write, asking, {}, OpInstanceStartup))
    return ops


def _old_reinstall(asking: Asking) -> dict[str, object]:
    return {"os": asking.arguments.text("os"), "start": not asking.arguments.flag("nostartup")}


def replace_disks(write: Write, asking: Asking) -> Sequence[OpInput]:
    """Raises: InvalidRequest: parameters are in the body and the query string, or wrong."""
    given = _from_one_place(asking, OLD_REPLACE, lambda: {each: asking.arguments.text(each) for each in OLD_REPLACE})
    return [opcode_of(write, asking, {**given, "disks": _disks(given.get("disks"))})]


def _disks(value: object) -> object:
    """Indices, also of a text like `0,1`."""
    if not isinstance(value, str):
        return value or []
    try:
        return [int(part) for part in value.split(",")]
    except ValueError:
        raise InvalidRequest(f"'disks' must be numbers with commas between them, got {value!r:.60}") from None


def _from_one_place(
    asking: Asking, old: Sequence[str], read_old: Callable[[], Mapping[str, object]]
) -> Mapping[str, object]:
    """The parameters of the body or, as old clients have it, of the query string."""
    given = optional_object(asking.body)
    if not any(each in asking.arguments for each in old):
        return given
    if given:
        raise InvalidRequest("parameters are in the body or in the query string, not in both")
    return read_old()
