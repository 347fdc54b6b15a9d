# SPDX-License-Identifier: MIT
"""Functions of a user's as plain data: by name, and those without one by their code.

Code in a file can do anything, so it is run only where the user says so. The form is
that of Keras 3, with the version of Python, which alone can run it, beside it.
"""

from __future__ import annotations

import base64
import contextlib
import marshal
import sys
from collections.abc import Callable, Mapping
from types import CellType, FunctionType
from typing import Any

from ipu._device.thread_state import here
from ipu.keras import _serialization
from ipu.keras._backend_state import state
from ipu.keras.engine.files import op_names

_PLAIN = (bool, int, float, str, type(None))


def unsafe(allowed: bool) -> contextlib.AbstractContextManager[None]:
    """Return a block in which code of files may be run, if it is allowed."""
    return here.setting(trusted=here.trusted + allowed)


def _version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def described(function: Callable[..., Any]) -> dict[str, Any]:
    """Describe a function as plain data."""
    if getattr(function, "__name__", "<lambda>") != "<lambda>":
        try:
            name = op_names.name_of(function, "")
        except ValueError:
            name = _serialization.get_registered_name(function)
        return {"class_name": "function", "config": name}
    if not isinstance(function, FunctionType):
        raise TypeError(f"{function!r} is not plain data")
    names = function.__code__.co_freevars
    closure = [cell.cell_contents for cell in function.__closure__ or ()]
    for name, value in zip(names, closure, strict=True):
        if not isinstance(value, _PLAIN):
            raise TypeError(
                f"the lambda uses {name!r} from around it, {value!r}, which is not "
                "plain data"
            )
    code = base64.encodebytes(marshal.dumps(function.__code__)).decode()
    defaults = function.__defaults__
    return {
        "class_name": "__lambda__",
        "config": {
            "code": code,
            "defaults": None if defaults is None else list(defaults),
            "closure": closure or None,
            "python": _version(),
        },
    }


def named(*functions: Any) -> dict[str, Any]:
    """Return those of some functions that a file knows by a name of the user's."""
    return {
        _serialization.get_registered_name(function): function
        for function in functions
        if isinstance(function, FunctionType)
        and function.__name__ != "<lambda>"
        and not function.__module__.startswith("ipu.")
    }


def restored(given: Any) -> Any:
    """Make the function that :func:`described` told of."""
    if isinstance(given, Mapping) and given.get("class_name") == "__lambda__":
        return _of_code(given["config"])
    if isinstance(given, Mapping) and given.get("class_name") == "function":
        given = given["config"]
    if not isinstance(given, str):
        return given
    own = _serialization.get_registered_object(given)
    if own is not None:
        return own
    try:
        return op_names.function_of(given)
    except ValueError:
        raise ValueError(
            f"The function {given!r} of a Lambda layer is not known here. Give it by "
            f"its name: load_model(..., custom_objects={{{given!r}: ...}})."
        ) from None


def _of_code(config: Mapping[str, Any]) -> Any:
    if not (here.trusted or state.trusts_files):
        raise ValueError(
            "The file has a Lambda layer whose function is a lambda, that is code, "
            "which could do anything. If you trust the file: load_model(..., "
            "safe_mode=False)."
        )
    written = config.get("python", _version())
    if written != _version():
        raise ValueError(
            f"The file has a Lambda layer whose function is code of Python {written}, "
            f"which Python {_version()} cannot run. Give the function a name, and "
            "save the model again."
        )
    try:
        code = marshal.loads(base64.b64decode(config["code"]))
        defaults = config["defaults"] and tuple(config["defaults"])
        closure = tuple(CellType(value) for value in config["closure"] or ())
        return FunctionType(code, _names(), code.co_name, defaults, closure or None)
    except (EOFError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"The code of a Lambda layer's function is damaged: {error}."
        ) from None


def _names() -> dict[str, Any]:
    """Return what code of a file may call by the names that everybody uses."""
    import numpy as np

    import ipu
    from ipu import keras, tf

    names = {"ipu": ipu, "tf": tf, "keras": keras, "K": keras.backend, "np": np}
    own = _serialization.get_custom_objects()
    return {"__builtins__": __builtins__, **names, **own}


def make_layer(config: Any, custom_objects: Any = None) -> Any:
    """Make a layer or a model, as ``keras.layers.deserialize`` does."""
    from ipu import keras

    return keras.layers.deserialize(config, custom_objects)
