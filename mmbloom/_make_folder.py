"""Making a folder of filters, and whether an existing one is what was asked for."""

from dataclasses import fields

from mmbloom._create import require_reserve
from mmbloom._folder import first_manifest, new_folder
from mmbloom._manifest import Plan
from mmbloom._member import file_name, make_member
from mmbloom.errors import ParameterMismatch


def make_folder(
    path: str,
    plan: Plan,
    number: int,
    *,
    permissions: int,
    allow_network: bool,
    exist_ok: bool,
) -> None:
    """Make a folder with its first file, unless `exist_ok` and something is there.

    Raises as `plan` of sizes, `new_folder` and `create_file`.
    """
    require_reserve(plan.reserve)
    plan.params(number)  # before anything is made: it says what is out of range
    try:
        with new_folder(path, permissions) as folder:
            first = make_member(
                folder,
                file_name(number),
                plan,
                number,
                permissions=permissions,
                allow_network=allow_network,
            )
            first_manifest(folder, plan, [first], permissions)
    except FileExistsError:
        if not exist_ok:
            raise


def require_same(found: Plan, asked: Plan, path: str, *, any_seed: bool) -> None:
    """Raise `ParameterMismatch` naming the first setting that differs.

    How the disk is reserved, and any seed if none was asked for, may.
    """
    free = {"reserve", "seed"} if any_seed else {"reserve"}
    if type(found) is not type(asked):
        raise ParameterMismatch(path, "kind", found.kind, asked.kind)
    for name in (field.name for field in fields(asked) if field.name not in free):
        there, wanted = getattr(found, name), getattr(asked, name)
        if there != wanted:
            raise ParameterMismatch(path, name, str(there), str(wanted))
