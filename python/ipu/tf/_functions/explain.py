# SPDX-License-Identifier: MIT
"""A traced function in plain sentences: why, what was fused, what is in it."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipu.tf._functions.tracing import TracedProgram

_KERNEL = re.compile(r"^\s*\d+\s+kernel\s+(\w+)\.")
_IN_PANELS = re.compile(r"^resource \d+ variable .* in panels of (\d+)$", re.MULTILINE)
_INSTRUCTION = re.compile(r"^\s*\d+\s+(\w+)")


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _some(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _listed(items: list[str]) -> str:
    if len(items) < 2:
        return "".join(items)
    return ", ".join(items[:-1]) + " and " + items[-1]


def _bytes(count: int) -> str:
    if count < 1024:
        return f"{count} bytes"
    if count < 1 << 20:
        return f"{count / 1024:.1f} KiB"
    return f"{count / (1 << 20):.1f} MiB"


def sentences(name: str, history: list[str], traced: TracedProgram | None) -> str:
    """Say what is known of a function.

    Args:
        name: Its name.
        history: Why it was traced, each time.
        traced: The program that was traced last, or None.
    """
    if not history:
        return f"{name} has not been traced yet: it has not been called."
    lines = [f"{name} has been traced {_times(len(history))}."]
    if len(history) > 1:
        lines.append(f"The last time: {history[-1]}.")
    if traced is None:
        lines.append("The program of the last trace is gone.")
    else:
        lines += _program(traced)
    return "\n".join(lines)


def _program(traced: TracedProgram) -> list[str]:
    kernels: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    variables: set[str] = set()
    for line in traced.program.text.splitlines():
        kernel = _KERNEL.match(line)
        instruction = _INSTRUCTION.match(line)
        if kernel is not None:
            kernels[kernel.group(1)] += 1
        if instruction is not None:
            kinds[instruction.group(1)] += 1
        variables.update(re.findall(r"variable\[\d+\]", line))
    lines = [_contents(kernels, kinds, len(variables)), _fusion(kernels)]
    memory = traced.program.memory_report
    lines.append(
        f"It needs {_bytes(memory['slab_bytes'])} of memory for what it computes, at "
        f"most {_bytes(memory['peak_live_bytes'])} of it at once, and holds "
        f"{_bytes(memory['constant_bytes'])} of constants."
    )
    lines += _panels(traced.program.text)
    return lines + _pipeline(traced.program.streams)


def _contents(kernels: Counter[str], kinds: Counter[str], variables: int) -> str:
    plain = [f"{count} {name}" for name, count in kernels.most_common()]
    text = f"The program runs {_some(sum(kernels.values()), 'kernel')}"
    text += f" ({_listed(plain)})" if plain else ""
    parts = [
        _some(kinds[kind], what)
        for kind, what in (
            ("loop", "counted loop"),
            ("while", "conditional loop"),
            ("branch", "branch"),
            ("dequeue", "dequeue"),
            ("enqueue", "enqueue"),
        )
        if kinds[kind]
    ]
    sentence = text + (f", has {_listed(parts)}" if parts else "")
    if variables:
        sentence += f", and uses {_some(variables, 'variable')}"
    return sentence + "."


def _panels(text: str) -> list[str]:
    widths = _IN_PANELS.findall(text)
    if not widths:
        return []
    what = "1 variable lies" if len(widths) == 1 else f"{len(widths)} variables lie"
    return [
        f"{what} in panels of {widths[0]} columns, as matrix products read them best; "
        "they need no more memory, and reading or assigning them shows rows."
    ]


def _pipeline(streams: list[dict[str, int]]) -> list[str]:
    """Return a sentence for each IPU of a pipeline."""
    lines = []
    for stream in streams:
        if stream["ipu"] >= 0:
            kept = stream["ring_bytes"] + stream["message_bytes"]
            remote = stream["remote_bytes"]
            lines.append(
                f"IPU {stream['ipu']} of the pipeline needs "
                f"{_bytes(stream['slab_bytes'])}, of which {_bytes(kept)} wait for a "
                "later pass"
                + (f", and {_bytes(remote)} of remote memory." if remote else ".")
            )
    return lines


def _fusion(kernels: Counter[str]) -> str:
    fused = []
    if kernels["fused_matmul"]:
        count = _some(kernels["fused_matmul"], "matrix product")
        fused.append(f"{count} with bias or activation")
    if kernels["matmul_accumulate"]:
        count = _some(kernels["matmul_accumulate"], "matrix product")
        fused.append(f"{count} into the sum that it is added to")
    if kernels["fused_elementwise"]:
        count = _some(kernels["fused_elementwise"], "chain")
        fused.append(f"{count} of element-wise ops")
    if kernels["fused_update"]:
        count = _some(kernels["fused_update"], "update")
        fused.append(f"{count} of many variables")
    return f"Fused: {_listed(fused)}." if fused else "Nothing was fused."
