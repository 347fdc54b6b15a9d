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
        "export",
        "Archives of several functions are not there.",
        "Use Model.export and ipu.serving.load, or ipu.serving.export_single_step for "
        "a function.",
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
        "Layers have no option for recomputation.",
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
        "Classes of operations for several frameworks are not there.",
        "Use keras.Layer, whose call takes tensors and inputs of models alike.",
    ),
    Absent(
        "",
        "legacy src",
        "Keras's private modules are not there.",
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
        "The layers that change pictures are those of Keras 2, RandomErasing and "
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
        "ops",
        "angle conj conjugate fft fft2 ifft2 imag irfft isreal istft polar real "
        "rfft stft view_as_complex view_as_real",
        "There are no complex numbers, and so no Fourier transforms, on an IPU.",
        "Transform data with NumPy before the model gets them.",
    ),
    Absent(
        "ops",
        "adaptive_average_pool adaptive_max_pool",
        "Windows whose sizes differ are not there.",
        "Use keras.ops.average_pool and max_pool, or the global pooling layers.",
    ),
    Absent(
        "ops",
        "allclose",
        "One more call does the same.",
        "Use keras.ops.all(keras.ops.isclose(x1, x2)).",
    ),
    Absent(
        "ops",
        "argpartition",
        "Sorting a part is not there.",
        "Use keras.ops.argsort or top_k.",
    ),
    Absent(
        "ops",
        "associative_scan",
        "A scan goes from row to row.",
        "Use keras.ops.scan, cumsum or cumprod.",
    ),
    Absent(
        "ops",
        "cdist corrcoef correlate",
        "Distances and correlations are not there.",
        "Write them with keras.ops.matmul, mean and conv.",
    ),
    Absent(
        "ops",
        "ctc_decode",
        "The search for labels has TensorFlow's name.",
        "Use tf.nn.ctc_greedy_decoder or ctc_beam_search_decoder.",
    ),
    Absent(
        "ops",
        "depth_to_space space_to_depth",
        "They have TensorFlow's names.",
        "Use tf.nn.depth_to_space and space_to_depth.",
    ),
    Absent(
        "ops",
        "diagflat",
        "A diagonal is flat here.",
        "Use keras.ops.diag(keras.ops.ravel(x)).",
    ),
    Absent(
        "ops",
        "dsplit hsplit vsplit dstack",
        "Only those that take an axis are there.",
        "Use keras.ops.split and concatenate.",
    ),
    Absent(
        "ops",
        "eig",
        "Eigenvalues of matrices that are not symmetric are complex.",
        "Use keras.ops.eigh, which takes symmetric ones.",
    ),
    Absent(
        "ops",
        "erfc i0 matrix_rank lu_factor pinv unique segment_min segment_prod",
        "They have TensorFlow's names.",
        "Use tf.math.erfc, bessel_i0, unsorted_segment_min and "
        "unsorted_segment_prod, tf.linalg.matrix_rank, lu and pinv, and "
        "tf.unique.",
    ),
    Absent(
        "ops",
        "fabs fmax fmin fmod ldexp ptp",
        "Other names, or one more call, do the same.",
        "Use keras.ops.abs, maximum, minimum, mod, max, min and power.",
    ),
    Absent(
        "ops",
        "fold unfold",
        "Windows have the order of TensorFlow.",
        "Use keras.ops.image.extract_patches.",
    ),
    Absent(
        "ops",
        "gcd geomspace lcm",
        "They are for values that are known while a function is traced.",
        "Use NumPy.",
    ),
    Absent(
        "ops",
        "histogram",
        "It has TensorFlow's name.",
        "Use tf.histogram_fixed_width.",
    ),
    Absent(
        "ops",
        "jvp",
        "Derivatives go back from results.",
        "Use tf.GradientTape.",
    ),
    Absent(
        "ops",
        "nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian "
        "nanmin nanpercentile nanprod nanquantile nanstd nansum nanvar",
        "Functions that skip NaN are not there.",
        "Use keras.ops.isnan and where before, or nan_to_num.",
    ),
    Absent(
        "ops",
        "percentile",
        "It is keras.ops.quantile of hundredths.",
        "Use keras.ops.quantile.",
    ),
    Absent(
        "ops",
        "rearrange",
        "Axes with names are not there.",
        "Use keras.ops.reshape and transpose, or the package einops.",
    ),
    Absent(
        "ops",
        "vectorize",
        "Functions are called on rows.",
        "Use keras.ops.vectorized_map.",
    ),
    Absent(
        "ops",
        "view",
        "It has TensorFlow's name.",
        "Use tf.bitcast.",
    ),
    Absent(
        "ops.image",
        "affine_transform elastic_transform gaussian_blur map_coordinates "
        "perspective_transform scale_and_translate",
        "keras.ops.image has the functions that keep pixels on a grid.",
        "Use keras.layers.RandomRotation and its kind, or "
        "keras.preprocessing.image.apply_affine_transform.",
    ),
    Absent(
        "ops.image",
        "extract_patches_3d sobel_edges ssim",
        "They have TensorFlow's names, or are not there.",
        "Use tf.image.sobel_edges, ssim and extract_patches.",
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
        "legacy",
        "Keras's private modules are not there.",
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
