# SPDX-License-Identifier: MIT
"""The table: ``tensorflow`` and its public modules, and ``tensorflow.compat``."""

from __future__ import annotations

from ipu.drop_in._entries import Entry, entry, renamed

_INS = "ipu.drop_in.stand_ins"
_V1 = "ipu.tf.compat.v1"

# read when the first of them is asked for
FLAGS = entry("absl.flags", f"{_V1}._flags", FLAGS=f"{_V1}._app:flags.FLAGS")
INITIALIZERS = renamed(
    "ipu.keras.initializers",
    "constant_initializer=Constant zeros_initializer=Zeros ones_initializer=Ones "
    "random_uniform_initializer=RandomUniform "
    "random_normal_initializer=RandomNormal "
    "truncated_normal_initializer=TruncatedNormal "
    "glorot_uniform_initializer=GlorotUniform "
    "glorot_normal_initializer=GlorotNormal "
    "variance_scaling_initializer=VarianceScaling orthogonal_initializer=Orthogonal",
)
RANDOM = renamed(
    "ipu.tf.random",
    "random_uniform=uniform random_normal=normal truncated_normal "
    "random_shuffle=shuffle set_random_seed=set_seed",
)
TRAIN = renamed(
    f"{_V1}.train",
    "GradientDescentOptimizer MomentumOptimizer AdamOptimizer RMSPropOptimizer "
    "Optimizer Saver get_global_step get_or_create_global_step create_global_step "
    "global_step latest_checkpoint exponential_decay",
)
# what programs of graphs and sessions take out of the inner modules
GRAPHS = renamed(
    _V1,
    "Graph GraphKeys Session InteractiveSession get_default_graph reset_default_graph "
    "get_default_session get_collection get_collection_ref add_to_collection "
    "add_to_collections placeholder placeholder_with_default get_variable "
    "variable_scope get_variable_scope VariableScope AUTO_REUSE global_variables "
    "local_variables trainable_variables model_variables variables_initializer "
    "global_variables_initializer local_variables_initializer "
    "is_variable_initialized report_uninitialized_variables assign assign_add "
    "assign_sub py_func ConfigProto GPUOptions RunOptions RunMetadata "
    "disable_eager_execution",
)
FIRST_INITIALIZERS = renamed(
    _V1,
    " ".join([*INITIALIZERS, "uniform_unit_scaling_initializer"]),
)
# names of TensorFlow 1 for what TensorFlow 2 calls otherwise
V1_NAMES = {
    **FIRST_INITIALIZERS,
    **RANDOM,
    **renamed(
        "ipu.tf",
        "mul=multiply sub=subtract neg=negative truediv=divide realdiv=divide",
    ),
    **renamed(
        "ipu.tf.math", "log rsqrt erf floordiv floormod reciprocal is_nan is_inf"
    ),
    **renamed(_V1, "to_float to_int32 to_bool assign assign_add assign_sub"),
    **renamed(_V1, "div arg_max arg_min"),
}

_VERSION = {"__version__": "ipu.tf.version:VERSION"}
FIRST_VERSION = {"__version__": f"{_INS}.root:FIRST_VERSION"}

TF: dict[str, Entry] = {
    "tensorflow": Entry(
        ("ipu.tf", f"{_INS}.root"),
        {
            **_VERSION,
            **INITIALIZERS,
            "__git_version__": "ipu.tf.version:GIT_VERSION",
            "__compiler_version__": "ipu.tf.version:COMPILER_VERSION",
        },
    ),
    "tensorflow.test": entry("ipu.tf.test"),
    "tensorflow.feature_column": Entry(),
    "tensorflow.distribute": entry("ipu.tf.distribute"),
    "tensorflow.distribute.cluster_resolver": entry(
        "ipu.tf.distribute.cluster_resolver"
    ),
    "tensorflow.io": entry("ipu.tf.io"),
    "tensorflow.compat.v1.python_io": Entry(
        (), renamed("ipu.tf.io", "TFRecordWriter TFRecordOptions")
    ),
    "tensorflow.io.gfile": entry(f"{_V1}._gfile"),
    "tensorflow.initializers": entry("ipu.keras.initializers"),
    "tensorflow.losses": entry("ipu.keras.losses"),
    "tensorflow.metrics": entry("ipu.keras.metrics"),
    "tensorflow.optimizers": entry("ipu.keras.optimizers"),
    "tensorflow.optimizers.schedules": entry("ipu.keras.optimizers.schedules"),
    "tensorflow.dtypes": entry(
        "ipu.tf.dtypes",
        **renamed(
            "ipu.tf",
            "cast as_dtype bool float16 float32 float64 int8 int16 int32 int64 uint8 "
            "uint16 uint32 uint64 DType",
        ),
    ),
    "tensorflow.compat": entry(f"{_INS}.compat"),
    "tensorflow.compat.v1": Entry(
        (_V1, "ipu.tf", f"{_INS}.root"),
        {**_VERSION, **V1_NAMES},
    ),
    "tensorflow.compat.v1.data": entry(f"{_V1}.data", "ipu.tf.data"),
    "tensorflow.compat.v1.image": entry(f"{_V1}.image", "ipu.tf.image"),
    "tensorflow.compat.v1.queue": entry(f"{_V1}.queue"),
    "tensorflow.compat.v1.random": entry(f"{_V1}.random", "ipu.tf.random"),
    "tensorflow.compat.v1.nn": entry(f"{_V1}.nn", "ipu.tf.nn"),
    "tensorflow.compat.v1.nn.rnn_cell": entry(f"{_V1}.rnn_cell"),
    "tensorflow.compat.v1.summary": entry(f"{_V1}.summary"),
    "tensorflow.compat.v1.train": Entry((f"{_V1}.train", "ipu.tf.train")),
    "tensorflow.compat.v1.app": entry(f"{_V1}._app"),
    "tensorflow.compat.v1.flags": FLAGS,
    "tensorflow.compat.v1.app.flags": FLAGS,
    "tensorflow.compat.v1.metrics": entry(f"{_V1}.metrics"),
    "tensorflow.compat.v1.logging": entry(f"{_V1}._logging"),
    "tensorflow.compat.v1.gfile": entry(f"{_V1}._gfile"),
    "tensorflow.compat.v1.test": entry("ipu.tf.test"),
    "tensorflow.compat.v1.losses": entry(f"{_V1}.losses"),
    "tensorflow.compat.v1.layers": entry(f"{_V1}.layers"),
    "tensorflow.compat.v1.initializers": Entry(
        ("ipu.keras.initializers",),
        {
            name.removesuffix("_initializer"): place
            for name, place in FIRST_INITIALIZERS.items()
        },
    ),
}
