"""Region sources: image in, regions out. Adding one is adding a file here with `make(**parameters) -> RegionSource`.

A module whose name begins with an underscore is a helper, not a source. That of drawn scenes lives with them.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import TYPE_CHECKING, Any

from groundling.errors import GroundlingError, unknown

if TYPE_CHECKING:
    from groundling.tensors import RegionSource

ELSEWHERE = {"scenes": "groundling.scenes.regions"}  # sources that are not modules of this package


def names() -> list[str]:
    """The sources that exist; nothing is imported to find out."""
    here = (module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    return sorted([*here, *ELSEWHERE])


def check_name(name: str) -> None:
    """GroundlingError where no source is called so."""
    if name not in names():
        raise GroundlingError(unknown("region source", name, names()))


def source(name: str, **parameters: Any) -> RegionSource:
    """The source called `name`, made with these parameters; only its own module is imported."""
    check_name(name)
    make = importlib.import_module(ELSEWHERE.get(name, f"{__name__}.{name}")).make
    try:
        inspect.signature(make).bind(**parameters)
    except TypeError as error:
        takes = ", ".join(str(p) for p in inspect.signature(make).parameters.values()) or "no parameters"
        raise GroundlingError(f"region source {name!r}: {error}; it takes {takes}") from error
    made: RegionSource = make(**parameters)
    return made
