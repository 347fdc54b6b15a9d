# SPDX-License-Identifier: MIT
"""The table: TensorFlow's inner modules, ``tensorflow.python...``."""

from __future__ import annotations

from ipu.drop_in._entries import Entry, entry, renamed
from ipu.drop_in._entries_tf import (
    FIRST_INITIALIZERS,
    FLAGS,
    GRAPHS,
    INITIALIZERS,
    RANDOM,
    TRAIN,
    V1_NAMES,
)

_INS = "ipu.drop_in.stand_ins"
_PY = "tensorflow.python"
_GRAPH_MESSAGES = (
    "attr_value function graph node_def op_def step_stats summary tensor tensor_shape "
    "types variable"
).split()
_OP_SOURCES = ("ipu.tf", "ipu.tf.math", "ipu.tf.nn", "ipu.tf.linalg")


def _ops(*names: str) -> dict[str, Entry]:
    """Return modules of ops, each of which offers all ops under their public names."""
    offered = {**GRAPHS, **V1_NAMES}
    return {f"{_PY}.ops.{name}": Entry(_OP_SOURCES, offered) for name in names}


def _framework(name: str, module: str, words: str) -> dict[str, Entry]:
    return {f"{_PY}.framework.{name}": Entry((), renamed(module, words))}


def _later(package: str, words: str) -> dict[str, Entry]:
    """Return modules whose names come later, and what is there of them already."""
    return {f"{_PY}.{package}.{word}": Entry() for word in words.split()}


def _modules(words: str) -> dict[str, str]:
    """Return names of ``tensorflow.python`` that stand for modules below it.

    They are written as ``path``, or as ``name=path``.
    """
    made = {}
    for word in words.split():
        name, _, path = word.rpartition("=")
        made[name or path.rpartition(".")[2]] = f"{_PY}.{path}"
    return made


_TESTING = entry("ipu.tf.test", f"{_INS}.test_util")

PYTHON: dict[str, Entry] = {
    _PY: Entry(
        (*_OP_SOURCES, f"{_INS}.root"),
        {
            **V1_NAMES,
            **_modules(
                "framework.dtypes framework.ops framework.errors framework.constant_op "
                "framework.tensor_shape framework.tensor_spec framework.test_util "
                "framework.random_seed eager.context eager.def_function eager.backprop "
                "ops.array_ops ops.math_ops ops.nn ops.nn_ops ops.random_ops "
                "ops.control_flow_ops ops.variables ops.init_ops ops.state_ops "
                "ops.standard_ops ops.variable_scope ops.metrics ops.losses "
                "bitwise=ops.bitwise_ops image=ops.image_ops manip=ops.manip_ops "
                "data.ops.dataset_ops platform.app platform.flags platform.gfile "
                "platform.test logging=platform.tf_logging util.compat util.nest "
                "feature_column client.session"
            ),
        },
    ),
    # --- framework
    f"{_PY}.framework.ops": Entry(
        (f"{_INS}.framework_ops",),
        {
            **renamed(
                "ipu.tf",
                "Tensor EagerTensor=Tensor device convert_to_tensor "
                "control_dependencies name_scope name_scope_v2=name_scope "
                "RegisterGradient init_scope",
            ),
            **GRAPHS,
            **renamed("ipu.tf.compat.v1", "Operation"),
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
    **_ops("script_ops", "confusion_matrix", "manip_ops", "gen_ops"),
    f"{_PY}.ops.variables": Entry(
        (),
        {
            **renamed("ipu.tf", "Variable VariableV1=Variable RefVariable=Variable"),
            **GRAPHS,
        },
    ),
    f"{_PY}.ops.resource_variable_ops": Entry(
        (), renamed("ipu.tf", "ResourceVariable=Variable")
    ),
    f"{_PY}.ops.state_ops": Entry(
        (), renamed("ipu.tf.compat.v1", "assign assign_add assign_sub")
    ),
    f"{_PY}.ops.init_ops": Entry((), FIRST_INITIALIZERS),
    f"{_PY}.ops.init_ops_v2": Entry(("ipu.keras.initializers",), INITIALIZERS),
    f"{_PY}.ops.random_ops": Entry(("ipu.tf.random",), RANDOM),
    f"{_PY}.ops.stateless_random_ops": entry("ipu.tf.random"),
    f"{_PY}.ops.image_ops": entry("ipu.tf.image"),
    f"{_PY}.ops.parsing_ops": entry("ipu.tf.io"),
    f"{_PY}.ops.string_ops": entry("ipu.tf.strings"),
    f"{_PY}.ops.losses": entry("ipu.tf.compat.v1.losses"),
    f"{_PY}.ops.losses.losses": entry("ipu.tf.compat.v1.losses"),
    f"{_PY}.ops.variable_scope": Entry((), GRAPHS),
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
    f"{_PY}.data.ops.readers": Entry(
        (),
        renamed(
            "ipu.tf.data", "FixedLengthRecordDataset TFRecordDataset TextLineDataset"
        ),
    ),
    f"{_PY}.data.ops.multi_device_iterator_ops": Entry(),
    **_later("data.ops", "optional_ops options"),
    f"{_PY}.data.experimental.ops": Entry(),
    f"{_PY}.data.kernel_tests": Entry(),
    f"{_PY}.data.kernel_tests.test_base": Entry(),
    f"{_PY}.data.util.structure": Entry(),
    f"{_PY}.data.experimental": entry("ipu.tf.data.experimental"),
    f"{_PY}.data.util": Entry(),
    f"{_PY}.data.util.nest": entry("ipu.tf.nest"),
    # --- distribute
    f"{_PY}.distribute": Entry(),
    f"{_PY}.distribute.distribution_strategy_context": entry("ipu.tf.distribute"),
    f"{_PY}.distribute.distribute_lib": entry("ipu.tf.distribute"),
    f"{_PY}.distribute.cluster_resolver": entry("ipu.tf.distribute.cluster_resolver"),
    f"{_PY}.distribute.cluster_resolver.cluster_resolver": entry(
        "ipu.tf.distribute.cluster_resolver"
    ),
    f"{_PY}.distribute.cluster_resolver.slurm_cluster_resolver": entry(
        "ipu.tf.distribute.cluster_resolver"
    ),
    f"{_PY}.distribute.cluster_resolver.tfconfig_cluster_resolver": entry(
        "ipu.tf.distribute.cluster_resolver"
    ),
    f"{_PY}.training.server_lib": Entry(
        (), renamed("ipu.tf.distribute.cluster_resolver", "ClusterSpec")
    ),
    f"{_PY}.distribute.reduce_util": Entry(
        (), renamed("ipu._device.strategy_state", "ReduceOp")
    ),
    # --- platform
    f"{_PY}.platform": Entry(),
    f"{_PY}.platform.test": _TESTING,
    f"{_PY}.platform.googletest": _TESTING,
    f"{_PY}.platform.tf_logging": entry("ipu.tf.compat.v1._logging"),
    f"{_PY}.platform.flags": FLAGS,
    f"{_PY}.platform.app": entry("ipu.tf.compat.v1._app"),
    f"{_PY}.platform.gfile": entry("ipu.tf.compat.v1._gfile"),
    # --- training
    f"{_PY}.training": Entry((), TRAIN),
    f"{_PY}.training.gradient_descent": Entry((), TRAIN),
    f"{_PY}.training.momentum": Entry((), TRAIN),
    f"{_PY}.training.adam": Entry((), TRAIN),
    f"{_PY}.training.rmsprop": Entry((), TRAIN),
    f"{_PY}.training.optimizer": Entry((), TRAIN),
    f"{_PY}.training.training": Entry((), TRAIN),
    f"{_PY}.training.training_util": Entry((), TRAIN),
    f"{_PY}.training.saver": Entry((), TRAIN),
    # --- compat
    f"{_PY}.compat": Entry(),
    f"{_PY}.compat.v2_compat": Entry(
        (), renamed("ipu.tf.compat.v1", "enable_v2_behavior disable_v2_behavior")
    ),
    # --- util
    f"{_PY}.util": Entry(),
    f"{_PY}.util.nest": entry("ipu.tf.nest"),
    f"{_PY}.util.compat": entry(f"{_INS}.compat"),
    f"{_PY}.util.tf_inspect": entry(f"{_INS}.tf_inspect"),
    f"{_PY}.util.tf_export": entry(f"{_INS}.tf_export"),
    f"{_PY}.util.deprecation": entry(f"{_INS}.tf_export"),
    # --- modules that can be imported, and whose names come later
    f"{_PY}.client": Entry(),
    f"{_PY}.client.session": Entry((), GRAPHS),
    **_later("client", "device_lib timeline"),
    f"{_PY}.feature_column": Entry(),
    **_later(
        "feature_column",
        "dense_features dense_features_v2 feature_column feature_column_lib "
        "feature_column_v2 sequence_feature_column serialization",
    ),
    f"{_PY}.module": Entry(),
    f"{_PY}.module.module": Entry((), renamed("ipu.tf", "Module")),
    f"{_PY}.layers": Entry(),
    f"{_PY}.layers.layers": entry("ipu.tf.compat.v1.layers"),
    **_later("layers", "base convolutional core normalization pooling utils"),
    f"{_PY}.lib": Entry(),
    f"{_PY}.lib.io": entry(),
    f"{_PY}.lib.io.tf_record": Entry(
        (), renamed("ipu.tf.io", "TFRecordWriter TFRecordOptions")
    ),
    **_later("lib.io", "file_io"),
    f"{_PY}.profiler": Entry(),
    f"{_PY}.saved_model": Entry(),
    f"{_PY}.saved_model.saved_model": Entry(),
    f"{_PY}.summary": Entry(),
    f"{_PY}.tpu": Entry(),
    **_later(
        "framework",
        "auto_control_deps combinations composite_tensor config device func_graph "
        "function graph_util importer kernels load_library meta_graph op_def_registry "
        "registry smart_cond sparse_tensor type_spec versions",
    ),
    **_later(
        "eager", "execute forwardprop monitoring profiler remote tape wrap_function"
    ),
    **_later(
        "ops",
        "array_grad batch_ops candidate_sampling_ops check_numerics cond_v2 "
        "control_flow_util control_flow_util_v2 control_flow_v2_func_graphs ctc_ops "
        "data_flow_ops distributions gen_control_flow_ops gen_data_flow_ops "
        "gen_dataset_ops gen_image_ops gen_linalg_ops gen_logging_ops gen_random_ops "
        "gen_resource_variable_ops gen_state_ops gen_stateless_random_ops "
        "gen_string_ops gradient_checker gradient_checker_v2 gradients_util "
        "histogram_ops image_grad inplace_ops io_ops linalg linalg_grad list_ops "
        "lookup_ops math_grad metrics metrics_impl nn_grad numpy_ops "
        "partitioned_variables ragged rnn rnn_cell rnn_cell_impl sets_impl "
        "signal sparse_grad sparse_ops state_grad stateful_random_ops "
        "summary_ops_v2 template tensor_array_grad tensor_array_ops user_ops "
        "while_v2",
    ),
    **_later("ops.linalg", "linalg linear_operator"),
    **_later("ops.ragged", "ragged_factory_ops ragged_tensor"),
    **_later(
        "training",
        "adadelta adagrad basic_session_run_hooks checkpoint_utils coordinator "
        "evaluation ftrl input learning_rate_decay monitored_session moving_averages "
        "optimizer_v2 py_checkpoint_reader queue_runner session_run_hook "
        "slot_creator sync_replicas_optimizer",
    ),
    f"{_PY}.training.tracking": Entry(),
    **_later("training.tracking", "base data_structures tracking util"),
    **_later(
        "distribute",
        "collective_all_reduce_strategy combinations cross_device_ops "
        "cross_device_utils device_util input_lib mirrored_strategy multi_worker_util "
        "numpy_dataset parameter_server_strategy strategy_combinations "
        "strategy_test_lib tpu_strategy values",
    ),
    **_later("platform", "benchmark resource_loader sysconfig"),
    **_later(
        "util",
        "deprecation_wrapper dispatch function_utils lazy_loader object_identity "
        "serialization tf_contextlib tf_decorator tf_stack",
    ),
    "tensorflow.core": Entry(),
    "tensorflow.core.framework": Entry(),
    **{f"tensorflow.core.framework.{name}_pb2": Entry() for name in _GRAPH_MESSAGES},
    "tensorflow.core.example": Entry(),
    "tensorflow.core.example.example_pb2": Entry(),
    "tensorflow.core.example.feature_pb2": Entry(),
    "tensorflow.core.util": Entry(),
    "tensorflow.core.util.event_pb2": Entry(),
    "tensorflow.core.protobuf": Entry(),
    "tensorflow.core.protobuf.config_pb2": Entry(
        (), renamed("ipu.tf.compat.v1", "ConfigProto GPUOptions RunOptions RunMetadata")
    ),
    "tensorflow.core.protobuf.rewriter_config_pb2": Entry(),
    # --- compiler
    "tensorflow.compiler": Entry(),
    "tensorflow.compiler.xla": Entry(),
    "tensorflow.compiler.xla.xla_data_pb2": Entry(),
    "tensorflow.compiler.tests": Entry(),
    "tensorflow.compiler.tests.xla_test": Entry(),
}
