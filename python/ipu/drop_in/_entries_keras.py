# SPDX-License-Identifier: MIT
"""The table: ``keras``, its private modules that programs import, ``keras.ipu``."""

from __future__ import annotations

from ipu.drop_in._entries import Entry, entry, renamed

_INS = "ipu.drop_in.stand_ins"
_EXTENSIONS = entry("ipu.keras.extensions")
CTC = Entry((), renamed("ipu._layers.ctc", "CTCLoss"))
_REDUCTION = Entry((), renamed("ipu.keras.losses", "ReductionV2=Reduction"))
# the files of layers and policies that test files import from
_PREPROCESSING = (
    "category_crossing category_encoding discretization hashing image_preprocessing "
    "index_lookup integer_lookup normalization preprocessing_stage string_lookup "
    "text_vectorization"
).split()
_UTILS = "control_flow_util mode_keys tf_contextlib tf_inspect version_utils".split()
_PRECISION = (
    "autocast_variable device_compatibility_check get_layer_policy "
    "loss_scale_optimizer policy experimental"
).split()


def extensions(root: str) -> dict[str, Entry]:
    """Return the modules of the IPU extensions of models, below ``root``."""
    names = (
        "functional_extensions model_extensions sequential_extensions "
        "pipeline_stage_assignment"
    ).split()
    return {root: _EXTENSIONS, **{f"{root}.{name}": _EXTENSIONS for name in names}}


def _layers(*names: str) -> dict[str, Entry]:
    return {f"keras.layers.{name}": entry("ipu.keras.layers") for name in names}


def _utils(*names: str) -> dict[str, Entry]:
    return {f"keras.utils.{name}": entry("ipu.keras.utils") for name in names}


# optimizers that TensorFlow does not have
ALS = renamed(
    "ipu.keras.optimizers",
    "ALSGradientAccumulationOptimizer ALSOptimizer ALSOptimizerAdam "
    "ALSOptimizerRMSProp ALSOptimizerSGD CrossReplicaOptimizer "
    "GradientAccumulationOptimizer IpuOptimizer MapGradientOptimizer",
)
ADDONS = renamed(
    "ipu.keras.optimizers",
    "AdamIpuOptimizer IpuOptimizerBase LAMBIpuOptimizer SGDIpuOptimizer",
)

KERAS: dict[str, Entry] = {
    "keras": Entry(
        ("ipu.keras",),
        {
            "__version__": "ipu.keras:__version__",
            **renamed("ipu.drop_in.first_keras", "PipelineSequential PipelinedModel"),
        },
    ),
    "keras.layers": Entry(
        ("ipu.keras.layers",),
        renamed("ipu.layers", "CTCInferenceLayer CTCPredictionsLayer"),
    ),
    "keras.engine": Entry(),
    "keras.engine.training": entry("ipu.keras.models"),
    "keras.engine.functional": entry("ipu.keras.models"),
    "keras.engine.sequential": entry("ipu.keras.models"),
    "keras.engine.base_layer": entry("ipu.keras.layers"),
    "keras.engine.base_layer_utils": Entry(
        (), renamed("ipu.tf.compat.v1", "enable_v2_dtype_behavior")
    ),
    "keras.engine.training_utils": Entry(),
    "keras.engine.input_layer": entry("ipu.keras.layers"),
    "keras.engine.input_spec": entry("ipu.keras.engine.layer.input_spec"),
    "keras.engine.data_adapter": entry("ipu.keras.engine.training.data_adapter"),
    "keras.engine.keras_tensor": entry("ipu.keras.engine.symbols.keras_tensor"),
    "keras.engine.network": Entry((), {"Network": "ipu.keras.models:Functional"}),
    "keras.optimizer_v2": Entry(),
    "keras.optimizer_v2.optimizer_v2": Entry(
        (), {"OptimizerV2": "ipu.keras.optimizers:Optimizer"}
    ),
    "keras.optimizer_v2.gradient_descent": Entry(
        (), renamed("ipu.keras.optimizers", "SGD")
    ),
    **{
        f"keras.optimizer_v2.{name.lower()}": Entry(
            (), renamed("ipu.keras.optimizers", name)
        )
        for name in ("Adadelta", "Adagrad", "Adam", "Adamax", "Ftrl", "Nadam")
    },
    "keras.optimizer_v2.rmsprop": Entry(
        (), renamed("ipu.keras.optimizers", "RMSprop RMSProp=RMSprop")
    ),
    "keras.optimizer_v2.learning_rate_schedule": entry(
        "ipu.keras.optimizers.schedules"
    ),
    "keras.optimizers.legacy": entry("ipu.keras.optimizers"),
    "keras.initializers.initializers_v1": entry("ipu.keras.initializers"),
    "keras.initializers.initializers_v2": entry("ipu.keras.initializers"),
    **_layers("core", "merge", "embeddings", "normalization", "layer_normalization"),
    **_layers("batch_normalization", "advanced_activations", "noise", "experimental"),
    **_layers("experimental.preprocessing", "recurrent", "recurrent_v2", "embeddings"),
    **_layers("convolutional", "pooling", "local", "wrappers", "dense_attention"),
    **_layers("convolutional_recurrent", "multi_head_attention"),
    "keras.layers.einsum_dense": entry("ipu.keras.layers"),
    "keras.layers.core.einsum_dense": entry("ipu.keras.layers"),
    **{
        f"keras.layers.preprocessing.{name}": entry(
            "ipu.keras.layers.experimental.preprocessing"
        )
        for name in _PREPROCESSING
    },
    **_utils("generic_utils", "np_utils", "data_utils", "layer_utils"),
    "keras.utils.losses_utils": _REDUCTION,
    "keras.losses.losses_utils": _REDUCTION,
    **_utils("tf_utils", "vis_utils", "image_utils", "image_dataset"),
    **{f"keras.utils.{name}": Entry() for name in _UTILS},
    "keras.testing_utils": entry(f"{_INS}.keras_testing_utils"),
    "keras.combinations": entry(f"{_INS}.keras_combinations"),
    "keras.keras_parameterized": entry(f"{_INS}.keras_parameterized"),
    "keras.mixed_precision": entry("ipu.keras.mixed_precision"),
    **{
        f"keras.mixed_precision.{name}": entry("ipu.keras.mixed_precision")
        for name in _PRECISION
    },
    "keras.saving": entry("ipu.keras.saving"),
    "keras.saving.save": Entry(
        (), renamed("ipu.keras.models", "load_model save_model")
    ),
    "keras.saving.model_config": Entry(
        (), renamed("ipu.keras.models", "model_from_config model_from_json")
    ),
    "keras.saving.hdf5_format": Entry(),
    "keras.saving.saved_model": Entry(),
    "keras.saving.saved_model_experimental": Entry(),
    "keras.saving.saving_utils": Entry(),
    "keras.ipu": _EXTENSIONS,
    **extensions("keras.ipu.extensions"),
    "keras.ipu.layers": entry("ipu.layers"),
    "keras.ipu.optimizers": Entry((), ALS),
    "keras.ipu.losses": CTC,
}
