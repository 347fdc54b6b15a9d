# SPDX-License-Identifier: MIT
"""Graph mode, the default graph, placeholders and collections."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from ipu._text.refusals import refuse_given
from ipu.tf._functions.scopes import control_dependencies
from ipu.tf._graph import mode
from ipu.tf._graph.frame import is_symbol
from ipu.tf._graph.graph import Graph
from ipu.tf._graph.operation import GraphTensor
from ipu.tf._graph.session import Session, default_session
from ipu.tf._ops.elementwise import identity
from ipu.tf._tensor.convert import convert_to_tensor
from ipu.tf.logging_ops import print_values
from ipu.tf.tensor_shape import TensorShape
from ipu.tf.tensor_spec import TensorSpec


def disable_v2_behavior() -> None:
    """Behave as TensorFlow 1 from now on: ops go to the default graph.

    Example:
        >>> v1.disable_v2_behavior()
        >>> print(v1.constant(1.0) + 2.0)
        Tensor("add:0", shape=(), dtype=float32)
        >>> v1.enable_v2_behavior()
        >>> float(v1.constant(1.0) + 2.0)
        3.0
    """
    mode.default_to_graphs(True)


def enable_v2_behavior() -> None:
    """Behave as TensorFlow 2 from now on: ops run at once.

    Example:
        >>> v1.enable_v2_behavior()
        >>> float(v1.constant(1.0) + 2.0)
        3.0
    """
    mode.default_to_graphs(False)


def disable_eager_execution() -> None:
    """Do the same as :func:`disable_v2_behavior`, as far as programs can tell.

    Example:
        >>> v1.disable_eager_execution()
        >>> v1.executing_eagerly()
        False
        >>> v1.enable_eager_execution()
    """
    mode.default_to_graphs(True)


def enable_eager_execution(*args: Any, **kwargs: Any) -> None:
    """Do the same as :func:`enable_v2_behavior`.

    Args:
        *args: Accepted without effect.
        **kwargs: Accepted without effect.

    Example:
        >>> v1.enable_eager_execution()
        >>> v1.executing_eagerly()
        True
    """
    mode.default_to_graphs(False)


def executing_eagerly_outside_functions() -> bool:
    """Return whether code outside of functions runs at once.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.executing_eagerly_outside_functions()
        False
    """
    return mode.current() is None


def get_default_graph() -> Graph:
    """Return the graph that ops of this thread go to.

    Example:
        >>> graph = v1.Graph()
        >>> with graph.as_default():
        ...     v1.get_default_graph() is graph
        True
    """
    return mode.current() or mode.default()


def reset_default_graph() -> None:
    """Begin another default graph.

    Raises:
        AssertionError: Inside of ``with graph.as_default():``.

    Example:
        >>> before = v1.get_default_graph()
        >>> v1.reset_default_graph()
        >>> v1.get_default_graph() is before
        False
    """
    mode.renew()


def get_default_session() -> Session | None:
    """Return the session that ``Tensor.eval`` uses in this thread, or None.

    Example:
        >>> with v1.Session() as session:
        ...     v1.get_default_session() is session
        True
    """
    return default_session()


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> GraphTensor:
    """Return a tensor whose value each run is given, in ``feed_dict``.

    Args:
        dtype: The dtype.
        shape: Sizes, None for one that varies. What a device computes with it is
            compiled for each shape that is fed. None: nothing is known.

    Returns:
        A tensor of the default graph.

    Raises:
        RuntimeError: Ops run at once.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.placeholder(v1.float32, [None, 4], name="x")
        <tf.Tensor 'x:0' shape=(None, 4) dtype=float32>
    """
    graph = mode.current()
    if graph is None:
        raise RuntimeError(
            "tf.placeholder() is not compatible with eager execution. Call "
            "tf.disable_v2_behavior() first, or make it in a tf.Graph's as_default()."
        )
    return graph.placeholder(dtype, shape, name)


def placeholder_with_default(
    input: Any, shape: Any = None, name: str | None = None
) -> Any:
    """Return a tensor whose value a run may be given.

    Args:
        input: Its value otherwise.
        shape: Sizes, None for one that varies; None: those of ``input``.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     rate = v1.placeholder_with_default(0.5, [])
        ...     print(session.run(rate), session.run(rate, {rate: 0.25}))
        0.5 0.25
    """
    graph = mode.current()
    given = convert_to_tensor(input)
    if graph is None or not is_symbol(given):
        return given
    sizes = given.shape if shape is None else TensorShape(shape)
    spec = TensorSpec(sizes, given.dtype)
    return graph.python(
        "PlaceholderWithDefault", lambda value: value, spec, (given,), name
    )


def py_func(
    func: Callable[..., Any],
    inp: Sequence[Any],
    Tout: Any,
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """Call a Python function on the host, with NumPy arrays.

    Args:
        func: The function.
        inp: Its arguments.
        Tout: The dtype of its result, or a list of them.
        stateful: Accepted and not used.

    Returns:
        A tensor, or a list of them. Their shapes are not known: use ``set_shape``.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     doubled = v1.py_func(lambda x: 2 * x, [v1.constant(3.0)], v1.float32)
        ...     print(session.run(doubled))
        6.0
    """
    from ipu.tf._functions.scopes import numpy_function

    del stateful
    return numpy_function(func, inp, Tout, name=name)


def Print(
    input_: Any,
    data: Sequence[Any],
    message: str | None = None,
    first_n: int | None = None,
    summarize: int | None = 3,
    name: str | None = None,
) -> Any:
    """Return a tensor that prints others whenever it is computed.

    Args:
        input_: The tensor.
        data: The values to print.
        message: A text to print before them.
        first_n: Accepted and not used: it is printed each time.
        summarize: How many elements of each end of each axis; None: all.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     x = v1.Print(v1.constant(2.0), ["x"])
        ...     print(session.run(x))
        2.0
    """
    texts = ([] if message is None else [message]) + list(data)
    printed = print_values(*texts, summarize=summarize)
    with control_dependencies([] if printed is None else [printed]):
        return identity(input_)


def add_to_collection(name: str, value: Any) -> None:
    """Put a value into a named list of the default graph.

    Args:
        name: The list.
        value: The value.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.add_to_collection("sizes", 3)
        ...     v1.get_collection("sizes")
        [3]
    """
    get_default_graph().add_to_collection(name, value)


def add_to_collections(names: Any, value: Any) -> None:
    """Put a value into several named lists of the default graph.

    Args:
        names: The lists.
        value: The value.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.add_to_collections(["a", "b"], 3)
        ...     v1.get_collection("b")
        [3]
    """
    get_default_graph().add_to_collections(names, value)


def get_collection(key: str, scope: str | None = None) -> list[Any]:
    """Return a copy of a named list of the default graph.

    Args:
        key: The list.
        scope: The prefix of the members' names; None: all members.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.get_collection(v1.GraphKeys.GLOBAL_VARIABLES)
        []
    """
    return get_default_graph().get_collection(key, scope)


def get_collection_ref(key: str) -> list[Any]:
    """Return a named list of the default graph itself.

    Args:
        key: The list.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.get_collection_ref("sizes").append(3)
        ...     v1.get_collection("sizes")
        [3]
    """
    return get_default_graph().get_collection_ref(key)


class GraphKeys:
    """The names of the lists that a graph has.

    Example:
        >>> GraphKeys.GLOBAL_VARIABLES
        'variables'
    """

    GLOBAL_VARIABLES = "variables"
    LOCAL_VARIABLES = "local_variables"
    MODEL_VARIABLES = "model_variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    MOVING_AVERAGE_VARIABLES = "moving_average_variables"
    QUEUE_RUNNERS = "queue_runners"
    METRIC_VARIABLES = "metric_variables"
    LOSSES = "losses"
    REGULARIZATION_LOSSES = "regularization_losses"
    UPDATE_OPS = "update_ops"
    TRAIN_OP = "train_op"
    SUMMARIES = "summaries"
    GLOBAL_STEP = "global_step"
    INIT_OP = "init_op"


class ConfigProto:
    """Options of a session: kept, and without effect.

    Args:
        **options: Any.

    Example:
        >>> config = ConfigProto(allow_soft_placement=True)
        >>> config.gpu_options.allow_growth = True
        >>> config.allow_soft_placement
        True
    """

    def __init__(self, **options: Any) -> None:
        self.__dict__.update(options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        made = ConfigProto()
        self.__dict__[name] = made
        return made

    def __repr__(self) -> str:
        options = ", ".join(f"{k}={v!r}" for k, v in self.__dict__.items())
        return f"{type(self).__name__}({options})"


class GPUOptions(ConfigProto):
    """Options of hardware that is not used here.

    Example:
        >>> GPUOptions(allow_growth=True).allow_growth
        True
    """


class OptimizerOptions(ConfigProto):
    """Options of passes over a graph, of which none has an effect.

    Example:
        >>> OptimizerOptions(global_jit_level=OptimizerOptions.ON_1).global_jit_level
        1
    """

    DEFAULT, OFF, L0, L1 = 0, -1, -1, 0
    ON_1, ON_2 = 1, 2


class GraphOptions(ConfigProto):
    """Options of a graph, of which none has an effect.

    Example:
        >>> GraphOptions(place_pruned_graph=True).place_pruned_graph
        True
    """


class RunOptions(ConfigProto):
    """Options of a run: kept, and without effect.

    Example:
        >>> RunOptions(timeout_in_ms=100).timeout_in_ms
        100
    """

    NO_TRACE = 0
    FULL_TRACE = 3


class RunMetadata(ConfigProto):
    """TensorFlow's record of a run, which is empty here: see ``python -m ipu profile``.

    Example:
        >>> RunMetadata()
        RunMetadata()
    """


def write_graph(
    graph_or_graph_def: Any, logdir: Any, name: str, as_text: bool = True
) -> str:
    """Write what a graph consists of as text: names, types, inputs and devices.

    Args:
        graph_or_graph_def: A graph, or what its ``as_graph_def`` gives.
        logdir: The folder, which is made where there is none.
        name: The file.
        as_text: Must be True: nothing could make a graph of it again.

    Returns:
        The path.

    Raises:
        NotImplementedError: ``as_text`` is False.

    Example:
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder, v1.Graph().as_default() as g:
        ...     _ = v1.constant(1.0, name="one")
        ...     with open(v1.train.write_graph(g, folder, "graph.pbtxt")) as file:
        ...         print(file.readlines()[1].strip())
        name: "one"
    """
    refuse_given(f"{__name__}.write_graph", as_text=as_text)
    given = graph_or_graph_def
    nodes = (given.as_graph_def() if hasattr(given, "as_graph_def") else given).node
    lines = []
    for node in nodes:
        fields = [("name", node.name), ("op", node.op)]
        fields += [("input", one) for one in node.input]
        fields += [("device", node.device)] if node.device else []
        body = "".join(f"  {key}: {json.dumps(str(v))}\n" for key, v in fields)
        lines.append(f"node {{\n{body}}}\n")
    os.makedirs(os.fspath(logdir), exist_ok=True)
    path = os.path.join(os.fspath(logdir), name)
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(lines))
    return path
