# SPDX-License-Identifier: MIT
"""Operations of Keras 3 and the functions here that are the same.

Where a model calls a function or an operator, Keras 3 stores an operation, which is an
object: some of the call's arguments belong to the call, the others to the object.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

from ipu.keras.engine.files import op_names


class _Row(NamedTuple):
    """A function here and an operation there.

    Attributes:
        function: Its name in a configuration.
        module: Where Keras 3 has the operation, below ``keras.src.ops``.
        operation: The name of its class.
        call: The parameters here that are those of its call, in order.
        own: The parameters here that belong to the object, by their names there.
    """

    function: str
    module: str
    operation: str
    call: tuple[str, ...]
    own: dict[str, str]


def _row(text: str) -> _Row:
    """Return a row written as ``function module.Operation call,... there=here,...``."""
    function, place, call, *own = text.split()
    module, _, operation = place.partition(".")
    pairs = (pair.partition("=") for pair in ",".join(own).split(",") if pair)
    names = {there: here or there for there, _, here in pairs}
    return _Row(function, module, operation, tuple(call.split(",")), names)


_ROWS = [
    _row(line)
    for line in """
    operator.add numpy.Add x,y
    operator.sub numpy.Subtract x,y
    operator.mul numpy.Multiply x,y
    operator.truediv numpy.TrueDivide x,y
    operator.truediv numpy.Divide x,y
    operator.floordiv numpy.FloorDivide x,y
    operator.mod numpy.Mod x,y
    operator.pow numpy.Power x,y
    operator.matmul numpy.Matmul x,y
    operator.lt numpy.Less x,y
    operator.le numpy.LessEqual x,y
    operator.gt numpy.Greater x,y
    operator.ge numpy.GreaterEqual x,y
    operator.neg numpy.Negative x
    operator.abs numpy.Absolute x
    operator.getitem numpy.GetItem x,y
    add numpy.Add x,y
    subtract numpy.Subtract x,y
    multiply numpy.Multiply x,y
    divide numpy.TrueDivide x,y
    math.floordiv numpy.FloorDivide x,y
    math.floormod numpy.Mod x,y
    pow numpy.Power x,y
    matmul numpy.Matmul a,b
    less numpy.Less x,y
    less_equal numpy.LessEqual x,y
    greater numpy.Greater x,y
    greater_equal numpy.GreaterEqual x,y
    equal numpy.Equal x,y
    not_equal numpy.NotEqual x,y
    maximum numpy.Maximum x,y
    minimum numpy.Minimum x,y
    where numpy.Where condition,x,y
    negative numpy.Negative x
    abs numpy.Absolute x
    square numpy.Square x
    sqrt numpy.Sqrt x
    exp numpy.Exp x
    math.log numpy.Log x
    math.log1p numpy.Log1p x
    math.expm1 numpy.Expm1 x
    math.reciprocal numpy.Reciprocal x
    sin numpy.Sin x
    cos numpy.Cos x
    tan numpy.Tan x
    sinh numpy.Sinh x
    cosh numpy.Cosh x
    tanh numpy.Tanh x
    floor numpy.Floor x
    math.ceil numpy.Ceil x
    round numpy.Round x
    sign numpy.Sign x
    concat numpy.Concatenate values axis
    stack numpy.Stack values axis
    reshape numpy.Reshape tensor newshape=shape
    transpose numpy.Transpose a axes=perm
    expand_dims numpy.ExpandDims input axis
    squeeze numpy.Squeeze input axis
    tile numpy.Tile input repeats=multiples
    reduce_mean numpy.Mean input_tensor axis,keepdims
    reduce_sum numpy.Sum input_tensor axis,keepdims
    reduce_max numpy.Max input_tensor axis,keepdims
    reduce_min numpy.Min input_tensor axis,keepdims
    reduce_prod numpy.Prod input_tensor axis,keepdims
    clip_by_value numpy.Clip t x_min=clip_value_min,x_max=clip_value_max
    cast core.Cast x dtype
    stop_gradient core.StopGradient x
    one_hot nn.OneHot indices num_classes=depth,axis,dtype
    nn.relu nn.Relu x
    nn.relu6 nn.Relu6 features
    sigmoid nn.Sigmoid x
    math.softplus nn.Softplus x
    math.softsign nn.Softsign features
    nn.silu nn.Silu features
    nn.elu nn.Elu features
    nn.selu nn.Selu features
    nn.gelu nn.Gelu features approximate
    nn.leaky_relu nn.LeakyRelu features negative_slope=alpha
    math.softmax nn.Softmax logits axis
    math.log_softmax nn.LogSoftmax logits axis
    math.rsqrt math.Rsqrt x
    math.erf math.Erf x
    reduce_logsumexp math.Logsumexp input_tensor axis,keepdims
    """.strip().splitlines()
]
# functions of keras.ops, whose names and arguments are those of Keras 3
_SAME = """
    numpy abs add all any arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax
        argmin argsort average bitwise_and bitwise_invert bitwise_or bitwise_xor
        broadcast_to ceil clip concatenate copy cos cosh count_nonzero cross cumprod
        cumsum diag diagonal diff digitize divide divide_no_nan dot equal exp exp2
        expand_dims expm1 flip floor floor_divide greater greater_equal hstack inner
        isfinite isinf isnan kron less less_equal log log10 log1p log2 logaddexp
        logical_and logical_not logical_or logical_xor matmul max maximum mean median
        min minimum mod moveaxis multiply negative not_equal outer power prod quantile
        ravel reciprocal repeat reshape roll round sign sin sinh sort split sqrt square
        squeeze stack std subtract sum swapaxes take take_along_axis tan tanh tensordot
        tile trace transpose tril triu trunc var vdot vstack where
    nn average_pool binary_crossentropy categorical_crossentropy celu conv
        depthwise_conv elu gelu glu hard_shrink hard_sigmoid hard_silu hard_tanh
        leaky_relu log_sigmoid log_softmax max_pool moments multi_hot normalize one_hot
        relu relu6 selu separable_conv sigmoid silu soft_shrink softmax softplus
        softsign sparse_categorical_crossentropy squareplus tanh_shrink threshold
    core cast stop_gradient
    math erf erfinv extract_sequences logsumexp rsqrt top_k
    linalg cholesky det inv norm qr
"""
_CLASSES = {"abs": "Absolute"}  # else the name in CamelCase
_OF_CALL = frozenset(
    """
    bins condition depthwise_kernel indices inputs kernel output pointwise_kernel q
    target variable weights x x1 x2 xs y
    """.split()
)


@functools.cache
def _rows() -> list[_Row]:
    """Return all rows; of several for one operation the first is what it becomes
    here."""
    rows = list(_ROWS)
    module = ""
    for line in _SAME.strip().splitlines():
        first, *names = line.split()
        if line.startswith(" " * 8):
            names.insert(0, first)
        else:
            module = first
        for name in names:
            function = f"keras.ops.{name}"
            arguments = inspect.signature(op_names.function_of(function)).parameters
            camel = "".join(word.capitalize() for word in name.split("_"))
            rows.append(
                _Row(
                    function,
                    module,
                    _CLASSES.get(name, camel),
                    tuple(one for one in arguments if one in _OF_CALL),
                    {one: one for one in arguments if one not in _OF_CALL},
                )
            )
    return rows


_REVERSED = {f"operator.r{name}": f"operator.{name}" for name in op_names.BINARY}
# what theirs say where ours say nothing; leaving it out means the same
_HARMLESS: dict[str, tuple[Any, ...]] = {
    "axis": (-1,),
    "decimals": (0,),
    "dtype": (None,),
    "initial": (None,),
    "sparse": (False,),
}


def of_call(
    function: str, name: str, args: list[Any], kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Any]]:
    """Describe a call of a function as one of an operation.

    Returns:
        The description of the operation, and the arguments of its call.
    """
    if function in _REVERSED:
        function, args = _REVERSED[function], args[::-1]
    row = next((row for row in _rows() if row.function == function), None)
    if row is None:
        raise ValueError(
            f"Keras 3 has no operation for {function} (layer {name!r}). Save to a path "
            "that ends in .safetensors."
        )
    given = _bound(row, args, kwargs)
    config: dict[str, Any] = {"name": name}
    for there, here in row.own.items():
        value, _ = given.pop(here)
        if value is not None:  # there None is not always the default
            config[there] = value
    called = [given.pop(one) for one in row.call]
    for key, (value, default) in given.items():
        if value != default:
            raise ValueError(
                f"Keras 3 has no {key}={value!r} of {function} (layer {name!r}). Save "
                "to a path that ends in .safetensors."
            )
    described = {
        "module": f"keras.src.ops.{row.module}",
        "class_name": row.operation,
        "config": config,
        "registered_name": row.operation,
        "name": name,
    }
    return described, [value for value, _ in called]


def _bound(
    row: _Row, args: list[Any], kwargs: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """Return the arguments of a call by name, each with the default."""
    if row.function.startswith("operator."):
        names = dict(zip(row.call, args, strict=True))
        return {key: (value, None) for key, value in names.items()}
    signature = inspect.signature(op_names.function_of(row.function))
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    defaults = {key: one.default for key, one in signature.parameters.items()}
    return {
        key: (value, defaults[key])
        for key, value in bound.arguments.items()
        if key != "name"
    }


def is_operation(described: Mapping[str, Any]) -> bool:
    """Return whether something that Keras 3 describes is an operation, and no layer."""
    return str(described.get("module")).startswith("keras.src.ops.")


def _unknown(row: _Row, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is said of an operation and has no place in a row."""
    return {
        key: value
        for key, value in config.items()
        if key != "name" and key not in row.own and value not in _HARMLESS.get(key, ())
    }


def _row_of(described: Mapping[str, Any], path: str) -> _Row:
    module = described["module"].rpartition(".")[2]
    operation = (module, described["class_name"])
    found = [row for row in _rows() if (row.module, row.operation) == operation]
    for row in found:  # one that has all that is said, if there is one
        if not _unknown(row, described["config"]):
            return row
    if found:
        return found[0]
    raise ValueError(
        f"The file {path!r} has the operation {described['class_name']} of Keras 3, "
        "which is not there yet."
    )


def operation_from(described: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return our layer for an operation, with its calls."""
    row = _row_of(described, path)
    config = described["config"]
    for key, value in _unknown(row, config).items():
        raise ValueError(
            f"The file {path!r} has an operation {row.operation} of Keras 3 with "
            f"{key}={value!r}, which is not there yet."
        )
    (call,) = described["inbound_nodes"]
    args = _arguments(row, call["args"], call["kwargs"])
    function = row.function
    if f"{function[:9]}r{function[9:]}" in _REVERSED and not _is_tensor(args[0]):
        function, args = f"operator.r{function[9:]}", args[::-1]
    own = {here: config[there] for there, here in row.own.items() if there in config}
    return {
        "class_name": "OpLambda",
        "config": {"name": config["name"], "function": function},
        "name": described["name"],
        "inbound_nodes": [{"args": args, "kwargs": own}],
    }


def _is_tensor(value: Any) -> bool:
    is_described = isinstance(value, Mapping)
    return is_described and value.get("class_name") == "__keras_tensor__"


def _arguments(row: _Row, args: list[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the arguments of a call of an operation in order."""
    places = {"x1": 0, "x2": 1, "condition": 0, "key": 1}
    given = list(args)
    for key, value in kwargs.items():
        given.insert(places.get(key, len(given)), value)
    if row.operation == "GetItem" and isinstance(given[1], list):
        given[1] = {"class_name": "__tuple__", "items": given[1]}
    return given
