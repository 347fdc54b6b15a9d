# SPDX-License-Identifier: MIT
"""The table: TensorFlow's inner modules, ``tensorflow.python...``."""

from __future__ import annotations

from ipu.drop_in._entries import Entry, entry, renamed
from ipu.drop_in._entries_tf import INITIALIZERS, RANDOM, TRAIN, V1_NAMES

__all__ = ["PYTHON"]

_INS = "ipu.drop_in.stand_ins"
_PY = "tensorflow.python"
_OP_SOURCES = ("ipu.tf", "ipu.tf.math", "ipu.tf.nn", "ipu.tf.linalg")


def _ops(*names: str) -> dict[str, Entry]:
    """Modules of ops, each of which offers all ops under their public names."""
    return {f"{_PY}.ops.{name}": Entry(_OP_SOURCES, V1_NAMES) for name in names}


def _framework(name: str, module: str, words: str) -> dict[str, Entry]:
    return {f"{_PY}.framework.{name}": Entry((), renamed(module, words))}


_TESTING = entry("ipu.tf.test", f"{_INS}.test_util")

PYTHON: dict[str, Entry] = {
    _PY: Entry(),
    # --- framework
    f"{_PY}.framework.ops": Entry(
        (f"{_INS}.framework_ops",),
        {
            **renamed(
                "ipu.tf",
                "Tensor EagerTensor=Tensor device convert_to_tensor "
                "control_dependencies name_scope name_scope_v2=name_scope "
                "RegisterGradient Operation init_scope",
            ),
            **renamed(f"{_INS}.root", "executing_eagerly_outside_functions"),
        },
    ),
    f"{_PY}.framework.dtypes": entry(
        "ipu.tf.dtypes",
        **renamed(
            "ipu.tf",
            "as_dtype bool float16 float32 float64 half double int8 int16 int32 int64 "
            "uint8 uint16 uint32 uint64 DType",
        ),
    ),
    f"{_PY}.framework.constant_op": Entry((), renamed("ipu.tf", "constant")),
    f"{_PY}.framework.errors": entry("ipu.tf.errors"),
    f"{_PY}.framework.errors_impl": entry("ipu.tf.errors"),
    f"{_PY}.framework.test_util": _TESTING,
    **_framework("tensor_spec", "ipu.tf", "TensorSpec"),
    **_framework("tensor_shape", "ipu.tf", "TensorShape"),
    **_framework("tensor_util", f"{_INS}.framework_ops", "is_tensor constant_value"),
    **_framework("indexed_slices", "ipu.tf", "IndexedSlices"),
    **_framework("random_seed", "ipu.tf.random", "set_seed set_random_seed=set_seed"),
    # --- eager
    f"{_PY}.eager": Entry(),
    f"{_PY}.eager.def_function": Entry(
        (),
        {
            **renamed("ipu.tf", "function"),
            **renamed("ipu.tf.config", "run_functions_eagerly"),
        },
    ),
    f"{_PY}.eager.function": Entry((), renamed("ipu.tf", "defun=function")),
    f"{_PY}.eager.backprop": Entry((), renamed("ipu.tf", "GradientTape")),
    f"{_PY}.eager.context": entry(f"{_INS}.context"),
    f"{_PY}.eager.test": _TESTING,
    # --- ops
    **_ops("math_ops", "gen_math_ops", "array_ops", "gen_array_ops", "nn_ops", "nn"),
    **_ops("gen_nn_ops", "nn_impl", "linalg_ops", "control_flow_ops", "functional_ops"),
    **_ops("clip_ops", "logging_ops", "check_ops", "gradients", "gradients_impl"),
    **_ops("custom_gradient", "special_math_ops", "embedding_ops", "map_fn"),
    **_ops("while_loop", "cond", "control_flow_v2_toggles", "bitwise_ops"),
    **_ops("standard_ops", "sort_ops"),
    **_ops("string_ops", "script_ops", "confusion_matrix", "manip_ops", "gen_ops"),
    f"{_PY}.ops.variables": Entry(
        (),
        renamed("ipu.tf", "Variable VariableV1=Variable RefVariable=Variable"),
    ),
    f"{_PY}.ops.resource_variable_ops": Entry(
        (), renamed("ipu.tf", "ResourceVariable=Variable")
    ),
    f"{_PY}.ops.state_ops": Entry(
        (), renamed(f"{_INS}.compat_v1", "assign assign_add assign_sub")
    ),
    f"{_PY}.ops.init_ops": Entry((), INITIALIZERS),
    f"{_PY}.ops.init_ops_v2": Entry(("ipu.keras.initializers",), INITIALIZERS),
    f"{_PY}.ops.random_ops": Entry(("ipu.tf.random",), RANDOM),
    f"{_PY}.ops.stateless_random_ops": entry("ipu.tf.random"),
    f"{_PY}.ops.image_ops": entry("ipu.tf.image"),
    f"{_PY}.ops.losses": Entry(),
    f"{_PY}.ops.losses.losses": Entry(),
    # --- data
    f"{_PY}.data": entry("ipu.tf.data"),
    f"{_PY}.data.ops": Entry(),
    f"{_PY}.data.ops.dataset_ops": Entry(
        ("ipu.tf.data",),
        {
            **renamed("ipu.tf.data", "DatasetV1=Dataset DatasetV2=Dataset"),
            **renamed("ipu.tf.data.experimental", "AUTOTUNE"),
        },
    ),
    f"{_PY}.data.ops.iterator_ops": entry("ipu.tf.data"),
    f"{_PY}.data.experimental": entry("ipu.tf.data.experimental"),
    f"{_PY}.data.util": Entry(),
    f"{_PY}.data.util.nest": entry("ipu.tf.nest"),
    # --- distribute
    f"{_PY}.distribute": Entry(),
    f"{_PY}.distribute.distribution_strategy_context": entry("ipu.tf.distribute"),
    f"{_PY}.distribute.distribute_lib": entry("ipu.tf.distribute"),
    f"{_PY}.distribute.reduce_util": Entry(
        (), renamed("ipu._strategy_state", "ReduceOp")
    ),
    # --- platform
    f"{_PY}.platform": Entry(),
    f"{_PY}.platform.test": _TESTING,
    f"{_PY}.platform.googletest": _TESTING,
    f"{_PY}.platform.tf_logging": entry(f"{_INS}.tf_logging"),
    f"{_PY}.platform.flags": entry("absl.flags"),
    f"{_PY}.platform.app": entry(f"{_INS}.app"),
    f"{_PY}.platform.gfile": entry(f"{_INS}.gfile"),
    # --- training
    f"{_PY}.training": Entry((), TRAIN),
    f"{_PY}.training.gradient_descent": Entry((), TRAIN),
    f"{_PY}.training.momentum": Entry((), TRAIN),
    f"{_PY}.training.adam": Entry((), TRAIN),
    f"{_PY}.training.rmsprop": Entry((), TRAIN),
    f"{_PY}.training.optimizer": Entry((), TRAIN),
    f"{_PY}.training.training": Entry((), TRAIN),
    # --- compat
    f"{_PY}.compat": Entry(),
    f"{_PY}.compat.v2_compat": Entry(
        (), renamed(f"{_INS}.compat_v1", "enable_v2_behavior")
    ),
    # --- util
    f"{_PY}.util": Entry(),
    f"{_PY}.util.nest": entry("ipu.tf.nest"),
    f"{_PY}.util.compat": entry(f"{_INS}.compat"),
    f"{_PY}.util.tf_inspect": entry(f"{_INS}.tf_inspect"),
    f"{_PY}.util.tf_export": entry(f"{_INS}.tf_export"),
    f"{_PY}.util.deprecation": entry(f"{_INS}.tf_export"),
    # --- graphs and sessions: the modules can be imported, their names come later
    f"{_PY}.client": Entry(),
    f"{_PY}.client.session": Entry(),
    f"{_PY}.ops.variable_scope": Entry(),
    f"{_PY}.ops.rnn": Entry(),
    f"{_PY}.ops.rnn_cell": Entry(),
    f"{_PY}.ops.rnn_cell_impl": Entry(),
    f"{_PY}.ops.control_flow_util_v2": Entry(),
    f"{_PY}.ops.metrics_impl": Entry(),
    f"{_PY}.training.training_util": Entry(),
    "tensorflow.core": Entry(),
    "tensorflow.core.framework": Entry(),
    "tensorflow.core.framework.attr_value_pb2": Entry(),
    "tensorflow.core.framework.types_pb2": Entry(),
    "tensorflow.core.protobuf": Entry(),
    "tensorflow.core.protobuf.config_pb2": Entry(),
    "tensorflow.core.protobuf.rewriter_config_pb2": Entry(),
    # --- compiler
    "tensorflow.compiler": Entry(),
    "tensorflow.compiler.tests": Entry(),
    "tensorflow.compiler.tests.xla_test": Entry(),
}
