# SPDX-License-Identifier: MIT
"""Evaluates all cases on one side: `python run.py ipu|tensorflow FILE [PART OF NAME]`.

The result of a case is plain data: see `plain`. A file is a pickle of them by name; one
whose name ends in ".json" has what `text` makes of them, for the programs of
TensorFlow 1 alone: so `tests/session_results.json` was written.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import expressions
import programs
import session_programs


def plain(value: Any) -> Any:
    """Tensors as arrays, shapes as tuples, dtypes as names; structures stay."""
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if any(one.__name__ == "TensorShape" for one in type(value).__mro__):
        return None if value.rank is None else ["shape", *value.as_list()]
    if type(value).__name__ == "DType":
        return value.name
    if type(value).__name__ == "IndexedSlices":
        dense = np.zeros(np.asarray(value.dense_shape), np.asarray(value.values).dtype)
        np.add.at(dense, np.asarray(value.indices), np.asarray(value.values))
        return dense
    if hasattr(value, "numpy"):
        array = np.asarray(value.numpy())
        return array
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return f"<{type(value).__name__}>"


def text(outcome: Any) -> Any:
    """An outcome as JSON takes it; an error without its message."""
    if outcome[0] == "raises":
        return ["raises", outcome[1], ""]
    return ["gives", _as_json(outcome[1])]


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"bytes": value.decode()}
    if isinstance(value, np.ndarray):
        values = [_as_json(one) for one in value.ravel().tolist()]
        return {"dtype": value.dtype.name, "shape": value.shape, "values": values}
    if isinstance(value, list):
        return [_as_json(one) for one in value]
    if isinstance(value, dict):
        return {"keys": {key: _as_json(one) for key, one in value.items()}}
    return value


def outcome_of(said: Any) -> Any:
    """The outcome that `text` was given."""
    return (said[0], _of_json(said[1]), *said[2:])


def _of_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_of_json(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "bytes" in value:
        return value["bytes"].encode()
    if "keys" in value:
        return {key: _of_json(one) for key, one in value["keys"].items()}
    values = [_of_json(one) for one in value["values"]]
    kind = object if value["dtype"] == "object" else value["dtype"]
    return np.array(values, kind).reshape(value["shape"])


def evaluate(call: Any) -> Any:
    """What a case gives, or ("raises", names of the exception's classes)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ("gives", plain(call()))
        except Exception as error:
            names = [c.__name__ for c in type(error).__mro__]
            return (
                "raises",
                names[: names.index("Exception")] or names[:1],
                str(error),
            )


def side(name: str) -> Any:
    """The module `tf` of a side."""
    if name == "ipu":
        from ipu import keras, tf

        attributes = {k: getattr(tf, k) for k in dir(tf) if not k.startswith("__")}
        return SimpleNamespace(**{**attributes, "keras": keras})
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    # Keras 2 is what programs for the IPU are written for
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tensorflow as tf

    return tf


def evaluate_all(name: str, only: str = "") -> dict[str, Any]:
    tf = side(name)
    prepared: dict[str, Any] = {"np": np}
    exec(expressions.PREPARED, prepared)
    found = {}
    for case, text in expressions.lines().items():
        if only in case:
            code = compile(text, "<case>", "eval")
            found[case] = evaluate(lambda code=code: eval(code, {**prepared, "tf": tf}))
    for case, function in programs.cases().items():
        if only in case:
            found[case] = evaluate(lambda function=function: function(tf))
    return {**found, **evaluate_sessions(tf, only)}


def evaluate_sessions(tf: Any, only: str = "") -> dict[str, Any]:
    """The programs of TensorFlow 1; the process has its behaviour from then on."""
    tf.compat.v1.disable_v2_behavior()
    return {
        case: evaluate(lambda function=function: function(tf))
        for case, function in session_programs.cases().items()
        if only in case
    }


def main(name: str, file: Path, only: str = "") -> None:
    if file.suffix != ".json":
        file.write_bytes(pickle.dumps(evaluate_all(name, only)))
        return
    results = evaluate_sessions(side(name), only)
    lines = (f"{json.dumps(k)}: {json.dumps(text(v))}" for k, v in results.items())
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
