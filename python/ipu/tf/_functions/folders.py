# SPDX-License-Identifier: MIT
"""Programs as folders: their text, the values of their variables, a signature.

``ipu.serving`` writes and loads them; the option ``serialization_output_folder`` has
every program written that can be.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ipu import _core
from ipu._device.devices import Device
from ipu._text.log import logger
from ipu.tf.tensor_spec import TensorSpec

FORMAT = 1
PROGRAM, WEIGHTS, SIGNATURE = "program.txt", "weights.safetensors", "signature.json"
VARIABLE = re.compile(
    r'^(resource r\d+ variable id=)(\d+)( "(.*)")? (\w+)\[(.*)\]', re.MULTILINE
)
# what belongs to this process, by the op in the text, and what to do instead
_STAYS = {
    " held(": "a large array: keep it in a tf.Variable",
    "variable_assign(": "an assignment to a variable",
    "variable_add(": "an addition to a variable",
    "host_call(": "a function of the host's: make it a preprocessing step",
    "outfeed_enqueue(": "an outfeed: return the results",
    "infeed_dequeue(": "an infeed: take the data as arguments",
}


def clean_text(trace: _core.Trace) -> str:
    """Return the program's text without the places of its source."""
    return re.sub(r"^( .*?)  # .*$", r"\1", trace.text, flags=re.M)


def what_stays(text: str) -> str:
    """Return what of a program cannot leave this process, or ""."""
    return next((use for what, use in _STAYS.items() if what in text), "")


def _values_of(text: str, device: Device) -> dict[str, Any]:
    """Read a program's variables, by their ids."""
    found = {}
    for match in VARIABLE.finditer(text):
        sizes = tuple(int(n) for n in match[6].split(",") if n)
        value = device.core.variable_read(int(match[2]), (match[5], sizes))
        found[match[2]] = np.asarray(value, order="C")
    return found


def _described(spec: TensorSpec, name: str) -> dict[str, Any]:
    sizes = [int(n) for n in spec.shape]
    return {"name": name, "dtype": spec.dtype.name, "shape": sizes}


def write(
    folder: str,
    text: str,
    device: Device,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    names: Sequence[str],
    structure: Any,
    notes: Mapping[str, Any],
) -> None:
    """Write a program into a folder that is there.

    Args:
        text: Of :func:`clean_text`.
        device: Where its variables are.
        inputs: With their names.
        names: Of the outputs.
        structure: The results of the function.
        notes: More for the signature.
    """
    from safetensors.numpy import save_file

    is_single = isinstance(structure, TensorSpec)
    is_dict = isinstance(structure, Mapping)
    signature = {
        "format": FORMAT,
        "inputs": [_described(spec, str(spec.name)) for spec in inputs],
        "outputs": [_described(*each) for each in zip(outputs, names, strict=True)],
        "returns": "dict" if is_dict else "tensor" if is_single else "list",
        **notes,
    }
    with open(os.path.join(folder, PROGRAM), "w", encoding="utf-8") as file:
        file.write(text)
    save_file(_values_of(text, device), os.path.join(folder, WEIGHTS))
    with open(os.path.join(folder, SIGNATURE), "w", encoding="utf-8") as file:
        json.dump(signature, file, indent=1)


def write_compiled(
    parent: str,
    name: str,
    text: str,
    device: Device,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    structure: Any,
) -> None:
    """Write a program that was compiled, where it can be, and say so.

    Args:
        parent: The folder that gets one for the program.
        name: The program's.
    """
    short = name.partition(" (")[0]
    use = what_stays(text)
    if use or not outputs:
        reason = f"it uses {use.partition(':')[0]}" if use else "it returns no tensor"
        logger.info("%s is not written to %s: %s.", short, parent, reason)
        return
    mark = hashlib.sha1(text.encode()).hexdigest()[:8]
    folder = os.path.join(parent, f"{re.sub(r'[^A-Za-z0-9]+', '_', short)}_{mark}")
    os.makedirs(folder, exist_ok=True)
    named = [
        TensorSpec(spec.shape, spec.dtype, f"input_{number}")
        for number, spec in enumerate(inputs)
    ]
    is_dict = isinstance(structure, Mapping) and len(structure) == len(outputs)
    names = [f"output_{number}" for number in range(len(outputs))]
    names = sorted(structure) if is_dict else names
    as_it_was = structure if is_dict or isinstance(structure, TensorSpec) else None
    write(folder, text, device, named, outputs, names, as_it_was, {})
    logger.info("%s is written to %s: ipu.serving.load reads it.", short, folder)
