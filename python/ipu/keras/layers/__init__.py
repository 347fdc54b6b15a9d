# SPDX-License-Identifier: MIT
"""``ipu.keras.layers``: the building blocks of models.

Every layer takes also, as keywords, what :class:`Layer` takes: ``name``, ``dtype``,
``trainable`` and others.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ipu._text.exports import export, offered
from ipu.keras import _serialization
from ipu.keras.engine.base_layer import InputSpec as InputSpec, Layer as Layer
from ipu.keras.engine.input_layer import Input as Input, InputLayer as InputLayer
from ipu.keras.layers.advanced_activations import *
from ipu.keras.layers.attention import *
from ipu.keras.layers.batch_normalization import *
from ipu.keras.layers.convolutional import *
from ipu.keras.layers.core import *
from ipu.keras.layers.embeddings import *
from ipu.keras.layers.global_pooling import *
from ipu.keras.layers.merge import *
from ipu.keras.layers.noise import *
from ipu.keras.layers.normalization import *
from ipu.keras.layers.pooling import *
from ipu.keras.layers.recurrent import *
from ipu.keras.layers.reshaping import *
from ipu.keras.layers.rnn import *
from ipu.keras.layers.rnn_cells import *
from ipu.keras.layers.wrappers import *

if TYPE_CHECKING:
    from ipu.keras.layers import experimental as experimental
    from ipu.keras.layers.category_encoding import *
    from ipu.keras.layers.convolutional_depthwise import *
    from ipu.keras.layers.convolutional_recurrent import *
    from ipu.keras.layers.convolutional_transpose import *
    from ipu.keras.layers.einsum_dense import *
    from ipu.keras.layers.group_normalization import *
    from ipu.keras.layers.hashing import *
    from ipu.keras.layers.image_augmentation import *
    from ipu.keras.layers.image_movement import *
    from ipu.keras.layers.index_lookup import *
    from ipu.keras.layers.locally_connected import *
    from ipu.keras.layers.preprocessing import *
    from ipu.keras.layers.serial_dense import *
    from ipu.keras.layers.text_vectorization import *


def serialize(layer: Layer) -> dict[str, Any]:
    """Describe a layer as plain data.

    Args:
        layer: A layer, or a model.

    Returns:
        ``{"class_name": ..., "config": ...}``.

    Example:
        >>> serialize(ReLU())["class_name"]
        'ReLU'
    """
    config: dict[str, Any] = _serialization.serialize_keras_object(layer)
    return config


def deserialize(config: dict[str, Any], custom_objects: Any = None) -> Any:
    """Make a layer from what ``serialize`` gave.

    Args:
        config: ``{"class_name": ..., "config": ...}``.
        custom_objects: A user's own classes and functions by name.

    Returns:
        A layer, or a model, with new weights.

    Raises:
        ValueError: There is no class of that name; the nearest is offered.

    Example:
        >>> deserialize({"class_name": "Dense", "config": {"units": 3}}).units
        3
    """
    from ipu.keras import models
    from ipu.keras.engine.symbols.op_lambda import OpLambda

    here: Any = sys.modules[__name__]
    own = {name: getattr(here, name) for name in here.__all__}
    table = {name: value for name, value in own.items() if isinstance(value, type)}
    table |= {"OpLambda": OpLambda, **{n: getattr(models, n) for n in models.CLASSES}}
    return _serialization.make("layer", config, table, custom_objects)


# what the IPU port has here and Keras does not
_OF_THE_PORT = (
    "AssumeEqualAcrossReplicas",
    "CaptureActivationGradients",
    "CaptureUpstreamGradients",
    "EffectiveTransformer",
    "LayerNorm",
    "PopnnGRU",
    "PopnnLSTM",
    "RecomputationCheckpoint",
)

# layers that few models have, by their modules, which are imported when they are used
_LATER = {
    "category_encoding": "CategoryEncoding Discretization",
    "convolutional_depthwise": (
        "DepthwiseConv1D DepthwiseConv2D SeparableConv1D SeparableConv2D "
        "SeparableConvolution1D SeparableConvolution2D"
    ),
    "convolutional_recurrent": "ConvLSTM1D ConvLSTM2D ConvLSTM3D",
    "convolutional_transpose": (
        "Conv1DTranspose Conv2DTranspose Conv3DTranspose Convolution1DTranspose "
        "Convolution2DTranspose Convolution3DTranspose"
    ),
    "einsum_dense": "EinsumDense",
    "group_normalization": (
        "GroupNorm GroupNormalization InstanceNorm InstanceNormalization"
    ),
    "hashing": "HashedCrossing Hashing",
    "image_augmentation": (
        "RandomBrightness RandomContrast RandomCrop RandomErasing RandomFlip "
        "RandomHeight RandomWidth Solarization"
    ),
    "image_movement": "RandomRotation RandomTranslation RandomZoom",
    "index_lookup": "IntegerLookup StringLookup",
    "locally_connected": "LocallyConnected1D LocallyConnected2D",
    "preprocessing": "CenterCrop Normalization Rescaling Resizing",
    "serial_dense": "SerialDense",
    "text_vectorization": "TextVectorization",
}

if not TYPE_CHECKING:
    _LAZY = {
        name: f"{__name__}.{module}:{name}"
        for module, names in _LATER.items()
        for name in names.split()
    }
    _LAZY["experimental"] = f"{__name__}.experimental"
    __all__ = offered(__name__, _LAZY)
    _LAZY |= {name: f"ipu.layers:{name}" for name in _OF_THE_PORT}
    export(__name__, None, _LAZY)
