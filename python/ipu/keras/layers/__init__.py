# SPDX-License-Identifier: MIT
"""``ipu.keras.layers``: the building blocks of models."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ipu._text.faces import face
from ipu.keras import _serialization
from ipu.keras.engine.base_layer import InputSpec, Layer
from ipu.keras.engine.input_layer import Input, InputLayer
from ipu.keras.layers.advanced_activations import (
    ELU,
    LeakyReLU,
    PReLU,
    ReLU,
    Softmax,
    ThresholdedReLU,
)
from ipu.keras.layers.attention import AdditiveAttention, Attention, MultiHeadAttention
from ipu.keras.layers.batch_normalization import BatchNormalization
from ipu.keras.layers.convolutional import (
    Conv1D,
    Conv2D,
    Conv3D,
    Convolution1D,
    Convolution2D,
    Convolution3D,
)
from ipu.keras.layers.core import (
    Activation,
    Dense,
    Dropout,
    Flatten,
    Lambda,
    Reshape,
)
from ipu.keras.layers.embeddings import Embedding
from ipu.keras.layers.global_pooling import (
    GlobalAveragePooling1D,
    GlobalAveragePooling2D,
    GlobalAveragePooling3D,
    GlobalAvgPool1D,
    GlobalAvgPool2D,
    GlobalAvgPool3D,
    GlobalMaxPool1D,
    GlobalMaxPool2D,
    GlobalMaxPool3D,
    GlobalMaxPooling1D,
    GlobalMaxPooling2D,
    GlobalMaxPooling3D,
)
from ipu.keras.layers.merge import (
    Add,
    Average,
    Concatenate,
    Dot,
    Maximum,
    Minimum,
    Multiply,
    Subtract,
    add,
    average,
    concatenate,
    dot,
    maximum,
    minimum,
    multiply,
    subtract,
)
from ipu.keras.layers.noise import (
    ActivityRegularization,
    AlphaDropout,
    GaussianDropout,
    GaussianNoise,
    SpatialDropout1D,
    SpatialDropout2D,
    SpatialDropout3D,
)
from ipu.keras.layers.normalization import LayerNormalization, UnitNormalization
from ipu.keras.layers.pooling import (
    AveragePooling1D,
    AveragePooling2D,
    AveragePooling3D,
    AvgPool1D,
    AvgPool2D,
    AvgPool3D,
    MaxPool1D,
    MaxPool2D,
    MaxPool3D,
    MaxPooling1D,
    MaxPooling2D,
    MaxPooling3D,
)
from ipu.keras.layers.recurrent import GRU, LSTM, SimpleRNN
from ipu.keras.layers.reshaping import (
    Cropping1D,
    Cropping2D,
    Cropping3D,
    Masking,
    Permute,
    RepeatVector,
    UpSampling1D,
    UpSampling2D,
    UpSampling3D,
    ZeroPadding1D,
    ZeroPadding2D,
    ZeroPadding3D,
)
from ipu.keras.layers.rnn import RNN
from ipu.keras.layers.rnn_cells import (
    GRUCell,
    LSTMCell,
    SimpleRNNCell,
    StackedRNNCells,
)
from ipu.keras.layers.wrappers import Bidirectional, TimeDistributed, Wrapper

if TYPE_CHECKING:
    from ipu.keras.layers import experimental as experimental
    from ipu.keras.layers.category_encoding import CategoryEncoding, Discretization
    from ipu.keras.layers.convolutional_depthwise import (
        DepthwiseConv1D,
        DepthwiseConv2D,
        SeparableConv1D,
        SeparableConv2D,
        SeparableConvolution1D,
        SeparableConvolution2D,
    )
    from ipu.keras.layers.convolutional_recurrent import (
        ConvLSTM1D,
        ConvLSTM2D,
        ConvLSTM3D,
    )
    from ipu.keras.layers.convolutional_transpose import (
        Conv1DTranspose,
        Conv2DTranspose,
        Conv3DTranspose,
        Convolution1DTranspose,
        Convolution2DTranspose,
        Convolution3DTranspose,
    )
    from ipu.keras.layers.einsum_dense import EinsumDense
    from ipu.keras.layers.group_normalization import (
        GroupNorm,
        GroupNormalization,
        InstanceNorm,
        InstanceNormalization,
    )
    from ipu.keras.layers.hashing import HashedCrossing, Hashing
    from ipu.keras.layers.image_augmentation import (
        RandomBrightness,
        RandomContrast,
        RandomCrop,
        RandomFlip,
        RandomHeight,
        RandomWidth,
    )
    from ipu.keras.layers.image_movement import (
        RandomRotation,
        RandomTranslation,
        RandomZoom,
    )
    from ipu.keras.layers.index_lookup import IntegerLookup, StringLookup
    from ipu.keras.layers.locally_connected import (
        LocallyConnected1D,
        LocallyConnected2D,
    )
    from ipu.keras.layers.preprocessing import (
        CenterCrop,
        Normalization,
        Rescaling,
        Resizing,
    )
    from ipu.keras.layers.serial_dense import SerialDense
    from ipu.keras.layers.text_vectorization import TextVectorization

__all__ = [
    "ELU",
    "GRU",
    "LSTM",
    "RNN",
    "Activation",
    "ActivityRegularization",
    "Add",
    "AdditiveAttention",
    "AlphaDropout",
    "Attention",
    "Average",
    "AveragePooling1D",
    "AveragePooling2D",
    "AveragePooling3D",
    "AvgPool1D",
    "AvgPool2D",
    "AvgPool3D",
    "BatchNormalization",
    "Bidirectional",
    "CategoryEncoding",
    "CenterCrop",
    "Concatenate",
    "Conv1D",
    "Conv1DTranspose",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Conv3DTranspose",
    "ConvLSTM1D",
    "ConvLSTM2D",
    "ConvLSTM3D",
    "Convolution1D",
    "Convolution1DTranspose",
    "Convolution2D",
    "Convolution2DTranspose",
    "Convolution3D",
    "Convolution3DTranspose",
    "Cropping1D",
    "Cropping2D",
    "Cropping3D",
    "Dense",
    "DepthwiseConv1D",
    "DepthwiseConv2D",
    "Discretization",
    "Dot",
    "Dropout",
    "EinsumDense",
    "Embedding",
    "Flatten",
    "GRUCell",
    "GaussianDropout",
    "GaussianNoise",
    "GlobalAveragePooling1D",
    "GlobalAveragePooling2D",
    "GlobalAveragePooling3D",
    "GlobalAvgPool1D",
    "GlobalAvgPool2D",
    "GlobalAvgPool3D",
    "GlobalMaxPool1D",
    "GlobalMaxPool2D",
    "GlobalMaxPool3D",
    "GlobalMaxPooling1D",
    "GlobalMaxPooling2D",
    "GlobalMaxPooling3D",
    "GroupNorm",
    "GroupNormalization",
    "HashedCrossing",
    "Hashing",
    "Input",
    "InputLayer",
    "InputSpec",
    "InstanceNorm",
    "InstanceNormalization",
    "IntegerLookup",
    "LSTMCell",
    "Lambda",
    "Layer",
    "LayerNormalization",
    "LeakyReLU",
    "LocallyConnected1D",
    "LocallyConnected2D",
    "Masking",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
    "MaxPooling1D",
    "MaxPooling2D",
    "MaxPooling3D",
    "Maximum",
    "Minimum",
    "MultiHeadAttention",
    "Multiply",
    "Normalization",
    "PReLU",
    "Permute",
    "RandomBrightness",
    "RandomContrast",
    "RandomCrop",
    "RandomFlip",
    "RandomHeight",
    "RandomRotation",
    "RandomTranslation",
    "RandomWidth",
    "RandomZoom",
    "ReLU",
    "RepeatVector",
    "Rescaling",
    "Reshape",
    "Resizing",
    "SeparableConv1D",
    "SeparableConv2D",
    "SeparableConvolution1D",
    "SeparableConvolution2D",
    "SerialDense",
    "SimpleRNN",
    "SimpleRNNCell",
    "Softmax",
    "SpatialDropout1D",
    "SpatialDropout2D",
    "SpatialDropout3D",
    "StackedRNNCells",
    "StringLookup",
    "Subtract",
    "TextVectorization",
    "ThresholdedReLU",
    "TimeDistributed",
    "UnitNormalization",
    "UpSampling1D",
    "UpSampling2D",
    "UpSampling3D",
    "Wrapper",
    "ZeroPadding1D",
    "ZeroPadding2D",
    "ZeroPadding3D",
    "add",
    "average",
    "concatenate",
    "deserialize",
    "dot",
    "experimental",
    "maximum",
    "minimum",
    "multiply",
    "serialize",
    "subtract",
]


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
    from ipu.keras.layers.op_lambda import OpLambda

    own = {name: getattr(sys.modules[__name__], name) for name in __all__}
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
        "RandomBrightness RandomContrast RandomCrop RandomFlip RandomHeight RandomWidth"
    ),
    "image_movement": "RandomRotation RandomTranslation RandomZoom",
    "index_lookup": "IntegerLookup StringLookup",
    "locally_connected": "LocallyConnected1D LocallyConnected2D",
    "preprocessing": "CenterCrop Normalization Rescaling Resizing",
    "serial_dense": "SerialDense",
    "text_vectorization": "TextVectorization",
}

if not TYPE_CHECKING:
    _LAZY = {name: f"ipu.layers:{name}" for name in _OF_THE_PORT}
    for _module, _names in _LATER.items():
        _place = f"{__name__}.{_module}"
        _LAZY |= {_name: f"{_place}:{_name}" for _name in _names.split()}
    _LAZY["experimental"] = f"{__name__}.experimental"
    __getattr__, __dir__ = face(__name__, __all__, _LAZY)
