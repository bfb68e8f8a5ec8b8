"""The rules that are made from the roles of an installation are read by the launcher as they are meant."""

import pwd
import tomllib

from common.access import Grantee
from common.installation import first_rules
from common.settings import AccessSettings
from common.wire import structure
from daemons.launcher.core.rules import LauncherRules


def rules_of(access: AccessSettings) -> LauncherRules:
    return structure(tomllib.loads(first_rules(access, "gantry")), LauncherRules)


def test_without_roles_only_root_may_run_commands_as_another_user() -> None:
    assert rules_of(AccessSettings()) == LauncherRules(callers=("gantry",), run_as={"root": ("self", "*")})


def test_submitters_run_as_themselves_and_administrators_as_everybody() -> None:
    user, other = Grantee(1), Grantee(pwd.getpwnam("nobody").pw_uid)
    group = Grantee(0, is_group=True)

    made = rules_of(AccessSettings(submit=(user, group), operate=(other,), admin=(user,), read=(Grantee(5),)))

    assert made.run_as == {
        "root": ("self", "*"),
        pwd.getpwuid(1).pw_name: ("self", "*", "root"),
        "@root": ("self",),
        "nobody": ("self",),
    }


def test_root_and_numbers_without_a_name_are_left_out() -> None:
    unused = next(uid for uid in range(40_000, 50_000) if uid not in {user.pw_uid for user in pwd.getpwall()})

    assert rules_of(AccessSettings(submit=(Grantee(unused), Grantee(0)))).run_as == {"root": ("self", "*")}
