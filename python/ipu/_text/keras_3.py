# SPDX-License-Identifier: MIT
"""Names of Keras 3 that are not there: why, and what to use in their place.

Errors, ``python -m ipu check`` and a page of the API reference read this table.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ABSENT", "Absent", "pattern"]


class Absent(NamedTuple):
    """Some names of a module of Keras that are not there.

    Attributes:
        module: The module below ``keras``, "" for ``keras`` itself.
        names: The names, between spaces; of a module all that is in it is meant.
        topic: A sentence on what is not there.
        instead: A sentence on what to use.
    """

    module: str
    names: str
    topic: str
    instead: str


ABSENT = (
    Absent(
        "",
        "applications",
        "Nets with trained weights are not there.",
        "Build the net with keras.layers, and read weights from a file of Keras with "
        "load_weights.",
    ),
    Absent(
        "",
        "distribution",
        "Layouts of weights over devices are not there.",
        "Use an IPUStrategy, whose models replicate themselves, or pipeline stages.",
    ),
    Absent(
        "",
        "dtype_policies FloatDTypePolicy",
        "A policy has one class.",
        "Use keras.DTypePolicy.",
    ),
    Absent(
        "",
        "quantizers Quantizer distillation",
        "Quantisation and distillation are not there.",
        "Use keras.mixed_precision, which computes in float16.",
    ),
    Absent(
        "",
        "remat RematScope",
        "Recomputation is not said of layers.",
        "Use tf.recompute_grad, or the recomputation of pipelines.",
    ),
    Absent(
        "",
        "visualization",
        "Galleries of pictures are not there.",
        "Use matplotlib, and keras.utils.plot_model for models.",
    ),
    Absent(
        "",
        "wrappers",
        "Wrappers for scikit-learn are not there.",
        "Call fit and predict of the model in a class of your own.",
    ),
    Absent(
        "",
        "Operation StatelessScope SymbolicScope",
        "Classes behind functions for several frameworks are not there.",
        "Use keras.Layer, whose call takes tensors and inputs of models alike.",
    ),
    Absent(
        "",
        "legacy src",
        "Keras's own modules behind its public ones are not there.",
        "Use the public name, such as keras.layers.Dense.",
    ),
    Absent(
        "backend",
        "is_float_dtype is_int_dtype result_type standardize_dtype",
        "Questions about dtypes belong to the dtypes.",
        "Use tf.as_dtype(dtype), which has is_floating, is_integer and name.",
    ),
    Absent(
        "callbacks",
        "OrbaxCheckpoint",
        "Checkpoints of Orbax are not there.",
        "Use ModelCheckpoint or BackupAndRestore.",
    ),
    Absent(
        "callbacks",
        "RemoteMonitor",
        "A callback that posts to a server is not there.",
        "Use LambdaCallback with a function that posts the logs.",
    ),
    Absent(
        "config",
        "disable_flash_attention enable_flash_attention is_flash_attention_enabled",
        "Attention has one kernel, which keeps no scores.",
        "Leave the call out.",
    ),
    Absent(
        "config",
        "is_nnx_enabled set_backend",
        "There is one backend.",
        "Leave the call out.",
    ),
    Absent(
        "config",
        "max_epochs max_steps_per_epoch set_max_epochs set_max_steps_per_epoch",
        "Limits for every fit are not there.",
        "Give fit epochs and steps_per_epoch.",
    ),
    Absent(
        "datasets",
        "california_housing",
        "This data set is not there.",
        "Use boston_housing, or a file of your own.",
    ),
    Absent(
        "initializers",
        "STFT STFTInitializer stft",
        "Fourier transforms as kernels are not there.",
        "Give a Constant of the kernel, made with NumPy.",
    ),
    Absent(
        "layers",
        "MelSpectrogram STFTSpectrogram",
        "Spectrograms are not there.",
        "Make them of the data before training, with numpy.fft.rfft.",
    ),
    Absent(
        "layers",
        "AdaptiveAveragePooling1D AdaptiveAveragePooling2D AdaptiveAveragePooling3D "
        "AdaptiveMaxPooling1D AdaptiveMaxPooling2D AdaptiveMaxPooling3D",
        "Pooling to a given size is not there.",
        "Use AveragePooling2D or MaxPooling2D with windows of input size // output "
        "size, and GlobalAveragePooling2D for a size of 1.",
    ),
    Absent(
        "layers",
        "AugMix AutoContrast ContrastLimitedAdaptiveHistogramEqualization CutMix "
        "Equalization MixUp RandAugment RandomColorDegeneration RandomColorJitter "
        "RandomElasticTransform RandomGaussianBlur RandomGrayscale RandomHue "
        "RandomInvert RandomPerspective RandomPosterization RandomSaturation "
        "RandomSharpness RandomShear",
        "Of layers that change pictures there are those of Keras 2, RandomErasing and "
        "Solarization.",
        "Use tf.image in a function for Dataset.map: random_hue, random_saturation, "
        "adjust_gamma and more.",
    ),
    Absent(
        "layers",
        "FlaxLayer JaxLayer TFSMLayer TorchModuleWrapper",
        "Layers around models of other frameworks are not there.",
        "Write the model with keras.layers, and give it the weights with set_weights.",
    ),
    Absent(
        "layers",
        "MaxNumBoundingBoxes",
        "Layers for boxes are not there.",
        "Use tf.image, which has non_max_suppression, crop_and_resize and "
        "draw_bounding_boxes.",
    ),
    Absent(
        "layers",
        "Pipeline",
        "A chain of layers for data has no class of its own.",
        "Use keras.Sequential; pipelines over IPUs are made of keras.PipelineStage.",
    ),
    Absent(
        "layers",
        "ReversibleEmbedding",
        "An embedding that also goes back is not there.",
        "Use Embedding, and tf.matmul(x, embedding.embeddings, transpose_b=True) for "
        "the way back.",
    ),
    Absent(
        "optimizers",
        "MultiOptimizer OptimizerMap",
        "One optimizer made of several is not there.",
        "Update each part by its own optimizer in train_step.",
    ),
    Absent(
        "optimizers",
        "ScheduleFreeAdamW",
        "Optimizers that replace a schedule are not there.",
        "Use AdamW with a schedule, or with use_ema=True.",
    ),
    Absent(
        "saving",
        "KerasFileEditor",
        "Files are not edited in place.",
        "Load the model, change it, and save it again.",
    ),
    Absent(
        "saving",
        "load_weights save_weights",
        "Weights are saved by the model.",
        "Use model.save_weights and model.load_weights.",
    ),
    Absent(
        "utils",
        "Config",
        "A dictionary with attributes is not there.",
        "Use a dataclass, or types.SimpleNamespace.",
    ),
    Absent(
        "utils",
        "FeatureSpace",
        "Feature spaces are not there.",
        "Give the model one input for each feature, and use Normalization, "
        "StringLookup, CategoryEncoding and HashedCrossing.",
    ),
    Absent(
        "utils",
        "audio_dataset_from_directory",
        "Files of sounds are not read.",
        "Read them with the module wave of Python, and use "
        "tf.data.Dataset.from_generator.",
    ),
    Absent(
        "utils",
        "bounding_boxes",
        "Functions for boxes are not there.",
        "Use tf.image, which has non_max_suppression, crop_and_resize and "
        "draw_bounding_boxes.",
    ),
    Absent(
        "utils",
        "disable_interactive_logging enable_interactive_logging "
        "is_interactive_logging_enabled",
        "What a run prints is said in its call.",
        "Give fit, evaluate and predict verbose=0, 1 or 2.",
    ),
    Absent(
        "utils",
        "legacy",
        "Keras's own modules behind its public ones are not there.",
        "Use keras.utils.serialize_keras_object and deserialize_keras_object.",
    ),
)


def pattern(row: Absent) -> str:
    """Return what finds the names of a row in whole dotted names.

    Args:
        row: One of :data:`ABSENT`.

    Example:
        >>> import re
        >>> row = next(row for row in ABSENT if row.names == "Pipeline")
        >>> bool(re.search(pattern(row), "tensorflow.keras.layers.Pipeline"))
        True
        >>> bool(re.search(pattern(row), "mine.Pipeline"))
        False
    """
    place = rf"keras\.{row.module}\." if row.module else r"keras\."
    return rf"(?:^|\.){place}(?:{'|'.join(row.names.split())})(?:\.|$)"
