# SPDX-License-Identifier: MIT
"""Programs that do not fit into an IPU: what is there, what would make room."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ipu._config.target import Target
from ipu._reports.machine_account import Account, Memory, size_text
from ipu._text.errors import ResourceExhaustedError
from ipu._text.user_warnings import warn_user
from ipu.machine import Machine

if TYPE_CHECKING:
    from ipu._core import AccountRequest

_TENANTS = 10


@dataclass(frozen=True)
class Fix:
    """A change that makes a program fit: it was estimated with the change.

    Attributes:
        change: What to do, in the program's terms.
        max_tile: Bytes of the fullest tile with it.
        saves: How many bytes fewer these are.
        price: Time with it over time without it, for the same samples.
        note: How results change; "" where they do not, except the order of sums.
        account: The account with it; None where the core made no more than its sums.
        together: Bytes of the fullest tile with it after those that are listed before
            it; of the first one its own. None where it was not tried, or excludes one
            of them.
    """

    change: str
    max_tile: float
    saves: float
    price: float
    note: str
    account: Account | None = field(repr=False, default=None)
    together: float | None = None
    _how: Any = field(repr=False, compare=False, default=None)

    def __str__(self) -> str:
        text = (
            f"{self.change}: {size_text(self.max_tile)} a tile "
            f"({size_text(self.saves)} fewer), {self.price:.2f} times the time"
        )
        if self.together is not None and self.together != self.max_tile:
            text += f", {size_text(self.together)} after the changes above"
        return f"{text}; {self.note}" if self.note else text


def fix_of(
    before: Account, after: Account, change: str, note: str = "", how: Any = None
) -> Fix | None:
    """Compare two accounts; None where the second one does not fit."""
    if not all(memory.fits for memory in after.memories):
        return None
    samples = (after.samples or 1) / (before.samples or 1)
    return Fix(
        change=change,
        max_tile=after.memory.max_tile,
        saves=before.memory.max_tile - after.memory.max_tile,
        price=after.seconds / before.seconds / samples if before.cycles else 1.0,
        note=note,
        account=after,
        _how=how,
    )


def best_first(fixes: list[Fix]) -> list[Fix]:
    """Order fixes: those that leave results as they are first, then the
    fastest."""
    return sorted(fixes, key=lambda fix: (bool(fix.note), fix.price, fix.change))


_TOGETHER = 3  # of the first fixes


def tried_together(
    fixes: list[Fix], account: Callable[[list[Any]], Account | None]
) -> list[Fix]:
    """Order fixes, and try the first ones after each other.

    Args:
        fixes: Each was tried alone.
        account: Makes the account with changes, one after the other; None where they
            exclude each other.
    """
    fixes = best_first(fixes)
    for i in range(min(_TOGETHER, len(fixes))):
        after = (
            fixes[0].account if i == 0 else account([f._how for f in fixes[: i + 1]])
        )
        if after is not None:
            size = after.memory.max_tile
            fixes[i] = replace(fixes[i], together=size)
    return fixes


def description(account: Account, name: str, fixes: list[Fix] | None) -> str:
    """Say that a program does not fit, what is there, and what would make it fit."""
    memory = account.memory
    lines = [
        f"{name} does not fit into an IPU ({account.machine!r}): the fullest tile "
        f"{_on(account, memory)}needs {size_text(memory.max_tile)} of "
        f"{size_text(memory.tile_bytes)}.",
        f"  always live   {size_text(memory.variables)} on {memory.tiles} tiles, and "
        f"{size_text(memory.code)} of code on each",
        f"  live at most  {size_text(memory.live)}, at {memory.at}",
        f"  temporary     {size_text(memory.temporary)} on a tile, at {memory.fullest}",
        "The largest tensors there:",
    ]
    for one in memory.by_tensor[:_TENANTS]:
        copies = f" x {one.copies}" if one.copies > 1 else ""
        source = f" ({one.source})" if one.source else ""
        lines.append(
            f"  {size_text(one.bytes):>10}  {one.type}{copies}  {one.name}{source}"
        )
    if fixes is None:
        lines.append(
            "ipu.machine.estimate(function, ...).fixes() finds what would make it fit."
        )
    elif fixes:
        lines.append("Estimated to fit, those first that change no results:")
        lines += [f"  {fix}" for fix in fixes]
    else:
        lines.append(
            "No single change of those that were tried makes it fit. Use more IPUs, or "
            "a smaller batch."
        )
    return "\n".join(lines)


def _on(account: Account, memory: Memory) -> str:
    return f"of IPU {memory.ipu} " if account.ipus > 1 else ""


def fixes_of_options(
    before: Account, target_request: AccountRequest, account: Callable[..., Account]
) -> list[Fix]:
    """Find options of products that make a program fit.

    Args:
        before: Its account, which does not fit.
        target_request: What that was made for.
        account: Makes another one, with the keywords of ``ipu.machine.estimate``.
    """
    found = []
    for share in (0.4, 0.2, 0.1, 0.05):
        if share >= min(target_request[1][:2]):
            continue
        options = f'{{"availableMemoryProportion": "{share}"}}'
        fix = fix_of(
            before,
            account(available_memory=share),
            f"matmuls.poplar_options and convolutions.poplar_options = {options}",
            how={"available_memory": share},
        )
        if fix is not None:
            found.append(fix)
            break
    halves = any("float16" in one.type for m in before.memories for one in m.tensors)
    if halves and not all(target_request[2]):
        fix = fix_of(
            before,
            account(partials="float16"),
            'matmuls.poplar_options and convolutions.poplar_options = {"partialsType": '
            '"half"}',
            "hardware then rounds sums to half",
            {"partials": "float16"},
        )
        found += [] if fix is None else [fix]
    return found


def examine(
    name: str,
    found: dict[str, Any],
    target: Target,
    diagnose: Callable[[], Account] | None,
) -> None:
    """Tell of a program that was compiled if it does not fit.

    Args:
        name: Of the program.
        found: Its account, as the core gives it.
        target: What it was compiled for.
        diagnose: Makes an account that knows layers and fixes; None where nobody can.

    Raises:
        ResourceExhaustedError: The target enforces memory.
    """
    account = Account(Machine(target.name, **target.fields), found)
    if all(memory.fits for memory in account.memories):
        return
    fixes = None
    if diagnose is not None:
        again = diagnose()
        fixes = again.fixes()
        if not all(memory.fits for memory in again.memories):
            account = again
    text = description(account, name, fixes)
    if target.memory == "enforce":
        raise ResourceExhaustedError(
            f"{text}\nIPU_MEMORY=warn, or ipu_model.enforce_memory = False in the "
            "IPUConfig, lets the simulation run all the same."
        )
    warn_user(
        f"{text}\nThe simulation runs all the same. IPU_MEMORY=enforce makes this an "
        "error, IPU_MEMORY=off says nothing."
    )
