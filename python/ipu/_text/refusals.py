# SPDX-License-Identifier: MIT
"""Calls, and arguments of calls, that are refused, in one table.

The called function consults it when it runs, and ``python -m ipu check`` before.

A row is about a function, a class, a method or an option of a configuration. What only
a run can tell is not in it: that depends on the values of tensors, or on what was done
before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

from ipu._text import unimplemented as _later
from ipu._text.errors import UnimplementedError
from ipu._text.missing import NotThereYetError

# the value of an argument in a program that is not run
UNKNOWN = object()


def _is_given(value: Any) -> bool:
    """Return True: the argument itself is refused, whatever its value."""
    return True


def _is_set(value: Any) -> bool:
    return value is not UNKNOWN and value is not None and bool(value)


def _is_other(value: Any) -> bool:
    """Return whether it is known, and not None."""
    return value is not UNKNOWN and value is not None


def _is_unset(value: Any) -> bool:
    return value is not UNKNOWN and not value


def _is_none_of(*allowed: Any) -> Callable[[Any], bool]:
    """Return whether a value, or the name of a function, is another one."""

    def refuses(value: Any) -> bool:
        named = getattr(value, "__name__", value)
        return value is not UNKNOWN and named not in allowed

    return refuses


class Refusal(NamedTuple):
    """A call, or an argument of one, that is refused.

    Attributes:
        call: The full name of a function, a method or a class where it is defined; of
            methods that several classes have, the name after a dot.
        argument: The argument; None where the call as a whole is refused.
        why: What is wrong and what to do, ``{value}`` being what was received. With
            NotThereYetError the name that is not there.
        refuses: Whether it is a value that is refused.
        error: What is raised.
    """

    call: str
    argument: str | None
    why: str
    refuses: Callable[[Any], bool] = _is_set
    error: type[Exception] = NotImplementedError

    def exception(self, value: Any) -> Exception:
        """Return what is raised for a value."""
        is_name = self.error is NotThereYetError
        return self.error(self.why if is_name else self.why.format(value=repr(value)))

    def text(self, shown: str) -> str:
        """Return the words about a value that is shown so, without the program's
        line."""
        if self.error is not NotThereYetError:
            return self.why.format(value=shown)
        later = _later.lookup(self.why)
        yet = " yet" if "later version" in later.topic else ""
        return f"{self.why} is not in ipu{yet}. {later.topic} {later.instead}".rstrip()


def _keys(call: str, where: str, arguments: str, why: str) -> Iterator[Refusal]:
    """Yield keywords that a method of models does not pass on."""
    for argument in arguments.split():
        text = f"Found `{argument}` key in `{where}`. {why}"
        yield Refusal(call, argument, text, _is_given, ValueError)


# of the hardware's recurrent op: the arguments, what is refused, when
_RECURRENT: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    ("activation", "another `activation` than 'tanh'", _is_none_of("tanh")),
    (
        "recurrent_activation",
        "another `recurrent_activation` than 'sigmoid'",
        _is_none_of("sigmoid", "hard_sigmoid"),
    ),
    ("use_bias", "`use_bias` False", _is_unset),
    ("implementation", "another `implementation` than 1 or 2", _is_none_of(1, 2)),
    *(
        (name, f"`{name}`", _is_set)
        for name in (
            "kernel_regularizer recurrent_regularizer bias_regularizer "
            "activity_regularizer kernel_constraint recurrent_constraint "
            "bias_constraint recurrent_dropout go_backwards unroll"
        ).split()
    ),
)
_DENSE = "This layer gives dense tensors."
_BY_KERAS = "It is set automatically by Keras."
_MEAN = "Use `gradient_accumulation_reduction_method='mean'`."
_ACCUMULATION = (
    ".set_gradient_accumulation_options",
    "gradient_accumulation_optimizer_kwargs",
)
_PIPELINING = (".set_pipelining_options", "pipelining_kwargs")

_ROWS = (
    *_keys(*_ACCUMULATION, "opt num_mini_batches", _BY_KERAS),
    *_keys(*_ACCUMULATION, "experimental_normalize_gradients", _MEAN),
    *_keys(
        *_PIPELINING,
        "gradient_accumulation_count",
        "Set the `gradient_accumulation_steps_per_replica` argument instead.",
    ),
    *_keys(
        *_PIPELINING,
        "computational_stages repeat_count inputs infeed_queue outfeed_queue "
        "optimizer_function",
        "It is automatically set by Keras.",
    ),
    *_keys(
        *_PIPELINING,
        "outfeed_loss outfeed_mask batch_serialization_iterations",
        "It is not compatible with Keras.",
    ),
    *_keys(*_PIPELINING, "experimental_normalize_gradients", _MEAN),
    *_keys(
        ".set_infeed_queue_options",
        "kwargs",
        "dataset infeed_spec element_spec",
        _BY_KERAS,
    ),
    *_keys(
        ".set_outfeed_queue_options", "kwargs", "outfeed_mode device_ordinal", _BY_KERAS
    ),
    Refusal(
        "ipu.ops.pipelining_ops.pipeline",
        "continuous_weight_updates",
        "continuous_weight_updates=True is not supported.",
    ),
    *(
        Refusal(
            call,
            argument,
            f"{why.format(argument=argument)} Received: {argument}={{value}}. "
            + instead,
        )
        for call, arguments, why, instead in (
            (
                "ipu.layers.Embedding",
                "embeddings_regularizer activity_regularizer embeddings_constraint "
                "mask_zero input_length",
                "ipu.layers.Embedding does not support `{argument}`.",
                "Use keras.layers.Embedding, which does.",
            ),
            (
                "ipu.layers.LayerNormalization",
                "beta_regularizer gamma_regularizer beta_constraint gamma_constraint",
                "ipu.layers.LayerNormalization does not support `{argument}`.",
                "Use keras.layers.LayerNormalization, which does.",
            ),
            *(
                (f"ipu.keras.layers.{name}", "sparse", _DENSE, "Leave it out.")
                for name in (
                    "category_encoding.CategoryEncoding",
                    "category_encoding.Discretization",
                    "hashing.HashedCrossing",
                    "hashing.Hashing",
                    "index_lookup.IntegerLookup",
                    "index_lookup.StringLookup",
                    "text_vectorization.TextVectorization",
                )
            ),
            (
                "ipu.tf._graph.session.Session",
                "target",
                "Sessions run in this process.",
                "Leave it empty.",
            ),
        )
        for argument in arguments.split()
    ),
    *(
        Refusal(
            f"ipu.drop_in.first_keras.restricted.FirstGeneration.{call}",
            argument,
            f"IPU Keras models do not support these parameters to {call}(): {argument}",
            _is_given,
        )
        for call in ("compile", "fit", "evaluate", "predict")
        for argument in (
            "sample_weight_mode weighted_metrics target_tensors distribute run_eagerly "
            "validation_split validation_data class_weight sample_weight "
            "validation_steps validation_freq max_queue_size workers "
            "use_multiprocessing"
        ).split()
    ),
    Refusal(
        "ipu.drop_in.first_keras.restricted.FirstGeneration.save",
        None,
        "IPU keras models do not support the `save` interface. Use `save_weights`; "
        "callbacks.ModelCheckpoint takes save_weights_only=True.",
    ),
    Refusal(
        "ipu.drop_in.first_keras.pipelines.PipelinedModel",
        None,
        "ipu.keras.PipelinedModel is gone: use ipu.keras.PipelineModel, or "
        "ipu.keras.SequentialPipelineModel for a stack of layers.",
    ),
    Refusal(
        "ipu.ops._host_embedding.HostEmbedding.__call__",
        None,
        "HostEmbedding.__call__ is not supported. Use lookup, in the context that "
        "HostEmbedding.register gives.",
    ),
    Refusal(
        "ipu.ipu_infeed_queue.IPUIterator.get_next_as_optional",
        None,
        "get_next_as_optional is not there for iterators of the device, which cannot "
        "ask whether the data set has ended. Count the iterations with tf.range.",
    ),
    Refusal(
        "ipu.keras.optimizers.wrappers.MapGradientOptimizer.get_config",
        None,
        "MapGradientOptimizer has no configuration: its function is not plain data. "
        "Save the configuration of the optimizer that it wraps.",
    ),
    *(
        Refusal(
            f"ipu._layers.recurrent.{kind}",
            argument,
            f"IPU custom {kind} layer does not support {what}. Received: {argument}="
            f"{{value}}. Use keras.layers.{kind}, which does.",
            refuses,
            ValueError,
        )
        for kind in ("GRU", "LSTM")
        for argument, what, refuses in _RECURRENT
    ),
    *(
        Refusal(call, None, name, error=NotThereYetError)
        for call, name in (
            (
                "ipu.drop_in.stand_ins.context.graph_mode",
                "tensorflow.python.eager.context.graph_mode",
            ),
        )
    ),
    Refusal(
        "ipu.ops.custom_ops.precompiled_user_op",
        None,
        "precompiled_user_op calls a library that builds a program of the hardware "
        "with Poplar, and there is no Poplar here. Write the op with tf functions, as "
        "a codelet_expression_op, or as a function of the host: cpu_user_operation.",
    ),
    Refusal(
        "ipu.keras.engine.model.Model.save",
        "save_format",
        "tensorflow.saved_model.save",
        lambda value: isinstance(value, str) and value == "tf",
        NotThereYetError,
    ),
    *(
        Refusal(
            f"ipu.tf.data._dataset.Dataset.{call}",
            "reader_func",
            "Elements are read in their order. Leave `reader_func` out, and use "
            "shuffle() or interleave().",
            _is_other,
        )
        for call in ("load", "snapshot")
    ),
    Refusal(
        "ipu.tf.data._dataset.Dataset.load",
        "wait",
        "load reads what is there. Leave `wait` out.",
    ),
    Refusal(
        "ipu.tf.data._csv.make_csv_dataset",
        "encoding",
        "Files are read as UTF-8. Received: encoding={value}.",
        lambda value: (
            isinstance(value, str) and value.lower().replace("_", "-") != "utf-8"
        ),
    ),
    Refusal(
        "ipu.tf.data._csv.make_csv_dataset",
        "ignore_errors",
        "Errors in files are raised. Received: ignore_errors={value}.",
    ),
    Refusal(
        "ipu.tf.compat.v1.rnn_cell.DropoutWrapper",
        "variational_recurrent",
        "variational_recurrent=True, one choice for all steps, is not there. Each step "
        "makes its own.",
    ),
    Refusal(
        "ipu.keras.callbacks.tensorboard.TensorBoard",
        "embeddings_freq",
        "Embeddings are not written for TensorBoard. Leave out `embeddings_freq` and "
        "`embeddings_metadata`. Received: embeddings_freq={value}.",
    ),
    *(
        Refusal(call, argument, why, _is_other)
        for call, argument, why in (
            (
                "ipu.ipu_estimator.IPUEstimator",
                "warm_start_from",
                "warm_start_from is not there. Copy the checkpoint into model_dir.",
            ),
            (
                "ipu.tf.estimator.EvalSpec",
                "exporters",
                "EvalSpec(exporters=...): saved models are not written. Leave it out; "
                "ipu.serving writes folders.",
            ),
        )
    ),
    *(
        Refusal(
            f"ipu.tf.compat.v1._queues.{name}",
            "names",
            "Elements of queues have no names here. Received: names={value}. Take them "
            "by their order.",
            _is_other,
        )
        for name in ("FIFOQueue", "RandomShuffleQueue")
    ),
    Refusal(
        "ipu.tf.compat.v1._queues.batch",
        "dynamic_pad",
        "batch(dynamic_pad=True) is not there. Use tf.data.Dataset.padded_batch.",
    ),
    Refusal(
        "ipu.tf.compat.v1._graphs.write_graph",
        "as_text",
        "A graph is written as text alone: nothing could make a graph of it again. "
        "Received: as_text={value}. Leave it out.",
        _is_unset,
    ),
    Refusal(
        "ipu.ipu_run_config.RunConfig",
        "master",
        "Estimators run in this process. Received: master={value}. Leave it out.",
    ),
    *(
        Refusal(
            "ipu.keras.layers.batch_normalization.BatchNormalization",
            name,
            f"BatchNormalization with `{name}` is not there. Leave it out.",
            error=UnimplementedError,
        )
        for name in ("virtual_batch_size", "adjustment")
    ),
)


_BY_CALL: dict[str, list[Refusal]] = {}
for _row in _ROWS:
    _BY_CALL.setdefault(_row.call, []).append(_row)


def rows_of(call: str) -> list[Refusal]:
    """Return the rows about a call.

    Example:
        >>> name = "ipu.keras.callbacks.tensorboard.TensorBoard"
        >>> "embeddings_freq" in [row.argument for row in rows_of(name)]
        True
    """
    return _BY_CALL.get(call, [])


def refuse_given(call: str, /, **arguments: Any) -> None:
    """Raise what the table says of the arguments of a call.

    Args:
        call: As :attr:`Refusal.call`.
        **arguments: Those that may be refused.

    Example:
        >>> refuse_given("ipu.tf._graph.session.Session", target="")
    """
    for row in rows_of(call):
        if row.argument in arguments and row.refuses(arguments[row.argument]):
            raise row.exception(arguments[row.argument])


def refuse_call(call: str) -> NoReturn:
    """Raise what the table says of a call, whatever its arguments."""
    raise next(row for row in rows_of(call) if row.argument is None).exception(None)
