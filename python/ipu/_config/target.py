# SPDX-License-Identifier: MIT
"""The IPU that programs are accounted for, as configuration and environment say it.

``IPU_MACHINE`` names it ("bow", "bow,tiles=2944"); else ``IPUConfig.ipu_model`` does;
else it is a GC200. ``IPU_MEMORY`` is "warn", "enforce" or "off": what becomes of a
program that does not fit there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ipu import _core
from ipu._text.arguments import as_int
from ipu._text.suggestions import hint

if TYPE_CHECKING:
    from ipu._core import AccountRequest

_CHIPS = {"ipu1": "gc2", "ipu2": "gc200", "ipu21": "bow"}
_MEMORY = ("warn", "enforce", "off")
_SHARE = 0.6  # of a tile, for a product's plan
_CLASSES = ("matmuls", "convolutions", "slices")


def chip_values(name: str, changes: Mapping[str, Any]) -> dict[str, float]:
    """Return the value of each field of a machine.

    Args:
        name: Of the machine.
        changes: Other values of fields.

    Raises:
        TypeError: A change is not a number, or there is no such field.
        ValueError: There is no such machine.

    Example:
        >>> chip_values("bow", {"tiles": 8})["tiles"]
        8.0
    """
    chips = _core.machine_chips()
    if name not in chips:
        raise ValueError(
            f"There is no machine {name!r}.{hint(str(name), chips)} Machines are "
            f"{', '.join(map(repr, chips))}."
        )
    names = [field for field, _, _ in _core.machine_fields()]
    values = dict(zip(names, chips[name], strict=True))
    for field, value in changes.items():
        if field not in values:
            raise TypeError(
                f"A machine has no field {field!r}.{hint(field, names)} Its fields are "
                f"{', '.join(names)}."
            )
        if isinstance(value, bool) or not isinstance(as_int(value), (int, float)):
            raise TypeError(f"`{field}` must be a number. Received: {value!r}.")
        values[field] = float(value)
    return values


class Target(NamedTuple):
    """An IPU, and how it plans products.

    Attributes:
        name: Of the machine.
        fields: Its changes.
        shares: Of a tile that a plan may take, of matmuls, convolutions and slices.
        halves: Whether matmuls and convolutions sum float16 in float16.
        has_joint_plans: Whether the products of a fully connected layer share a plan.
        has_stable_norms: Whether norms subtract the mean before they sum squares.
        memory: "warn", "enforce" or "off".
    """

    name: str
    fields: dict[str, float]
    shares: tuple[float, float, float]
    halves: tuple[bool, bool]
    has_joint_plans: bool
    has_stable_norms: bool
    memory: str

    def request(
        self,
        ipus: int = 1,
        is_for_all: bool = False,
        replicas: int = 0,
        chip: tuple[float, ...] | None = None,
    ) -> AccountRequest:
        """Return what the core wants to know to make an account.

        Args:
            ipus: Of the device, which replicas share out.
            is_for_all: Whether it is wanted of programs that fit, too.
            replicas: How many there are; 0: as many as the IPUs are enough for.
            chip: The values of another machine's fields; None for this one's.
        """
        if chip is None:
            chip = tuple(chip_values(self.name, self.fields).values())
        plans = self.has_joint_plans, self.has_stable_norms
        count = float(replicas)
        return chip, self.shares, self.halves, plans, count, float(ipus), is_for_all


def target_of(
    options: Mapping[str, Any] | None, environment: Mapping[str, str] = os.environ
) -> Target:
    """Return the IPU that options in effect (``IPUConfig.to_dict``) ask for.

    Raises:
        ValueError: An environment variable cannot be read.

    Example:
        >>> target_of(None, {"IPU_MACHINE": "bow,tiles=736"}).fields
        {'tiles': 736.0}
        >>> target_of({"ipu_model.version": "ipu1"}, {}).name
        'gc2'
    """
    options = options or {}
    name = _CHIPS.get(options.get("ipu_model.version", ""), "gc200")
    fields: dict[str, float] = {}
    tiles = options.get("ipu_model.tiles_per_ipu", 0)
    if tiles > 0:
        fields["tiles"] = float(tiles)
    given = environment.get("IPU_MACHINE", "")
    if given:
        name, *changes = (part.strip() for part in given.split(","))
        try:
            pairs = [change.split("=") for change in changes]
            fields = {field.strip(): float(number) for field, number in pairs}
        except ValueError:
            raise ValueError(
                f"IPU_MACHINE={given} is not a machine: it is a name, and fields with "
                "their numbers after it, such as bow,tiles=2944."
            ) from None
    io_tiles = options.get("io_tiles.num_io_tiles", 0)
    if io_tiles > 0 and name in (chips := _core.machine_chips()):
        fields["tiles"] = fields.get("tiles", chips[name][0]) - io_tiles
    memory = environment.get("IPU_MEMORY", "")
    if memory not in ("", *_MEMORY):
        raise ValueError(
            f"IPU_MEMORY={memory} must be one of {', '.join(_MEMORY)}: what becomes of "
            "a program that does not fit into an IPU."
        )
    if not memory:
        enforces = options.get("ipu_model.enforce_memory", False)
        memory = "enforce" if enforces else "warn" if options else "off"
    given_to = [options.get(f"{kind}.poplar_options", {}) for kind in _CLASSES]
    matmuls, convolutions, slices = (
        float(one.get("availableMemoryProportion", _SHARE)) or _SHARE
        for one in given_to
    )
    halves = [one.get("partialsType", "float") == "half" for one in given_to]
    return Target(
        name,
        fields,
        (matmuls, convolutions, slices),
        (halves[0], halves[1]),
        not options.get("matmuls.clear_pass_type", False),
        bool(options.get("norms.use_stable_statistics", False)),
        memory,
    )
