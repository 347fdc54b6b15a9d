# SPDX-License-Identifier: MIT
"""Names that are not there yet: one sentence each on why, and on what to use.

The rules look at full dotted names, whatever tree they come from:
``tensorflow.estimator.Estimator`` and ``tensorflow.python.estimator.Estimator`` meet
the same one.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import NamedTuple

from ipu._text import keras_3
from ipu._text.suggestions import nearest_name

NEAR = 0.75  # how near a name is to the one that was meant


class Later(NamedTuple):
    """Why a name is not there.

    Attributes:
        topic: A sentence, or "" where nothing is known about the name.
        instead: A sentence on what to use instead, or "".
    """

    topic: str = ""
    instead: str = ""


def _words(text: str) -> str:
    """Return a pattern of alternatives, each of which is one whole part of a dotted
    name."""
    return rf"(?:^|\.)(?:{'|'.join(text.split())})(?:\.|$)"


_SESSION = Later(
    "Not everything about the graphs and sessions of TensorFlow 1 is there.",
    "Use the names of TensorFlow 1: import tensorflow.compat.v1 as tf, then "
    "tf.disable_v2_behavior(). Or write a @tf.function and call it with "
    "IPUStrategy.run.",
)
_CONVOLUTION = Later(
    "The other ops of convolution and pooling come with a later version."
)
_RECURRENT = Later("Further recurrent layers come with a later version.")
_RECURRENT_1 = Later(
    "The recurrent layers of TensorFlow 1 have their names in tf.compat.v1.nn.",
    "Use tf.compat.v1.nn.dynamic_rnn and rnn_cell, or keras.layers.LSTM.",
)
_LAYERS_1 = Later(
    "Not all layers of TensorFlow 1 are there.",
    "Use those of keras.layers.",
)
_WORKERS = Later(
    "Strategies for other hardware and for parameter servers are not there.",
    "Use ipu.distributed.popdist_strategy.PopDistStrategy, which runs a program in "
    "several processes: python -m ipu run -n 4 train.py.",
)
_SHARDING = Later(
    "Sharding by kinds of nets is not there.",
    "Use ipu.scopes.ipu_shard, or ipu.autoshard.automatic_sharding.",
)
_ESTIMATOR = Later(
    "The estimators here are IPUEstimator and IPUPipelineEstimator of "
    "ipu_estimator, with what their functions need.",
    "Or use keras.Model and its fit().",
)
_SAVED = Later(
    "TensorFlow's saved models are neither written nor read.",
    "Use Model.save and keras.models.load_model, which keep a model in one "
    ".safetensors file, or ipu.serving, whose folders run without the model's code.",
)
_PROFILE = Later(
    "PopVision's reports are neither written nor read.",
    "Use python -m ipu profile, or ipu.profiler.",
)
_ABSL = Later(
    "It needs the package absl-py.",
    "Install it: pip install absl-py.",
)
_COLUMNS = Later(
    "Feature columns can be imported, but not used.",
    "Give the model one input for each feature; keras.layers has Normalization and "
    "Embedding.",
)
_CUSTOM = Later("Code for the hardware cannot be run here.", "Write it with tf ops.")
_BINARY = Later(
    "Programs that were compiled for the hardware cannot be run here.",
    "Use ipu.serving, whose folders run without the code that made them.",
)
_FORMATS = Later(
    "Nothing here computes in formats of 8 bits, or in simulated ones.",
    "Use float16.",
)
_EXTRACTOR = Later(
    "The tool of the port that packs data sets is not there.",
    "Use ipu.utils.export_dataset_to_file.",
)
_SPARSE = Later(
    "Graphs of TensorFlow 1 have no sparse tensors and no ragged rows.",
    "Feed indices and values by placeholders of their own: tf.scatter_nd makes a dense "
    "tensor of them. Split texts in a data set.",
)
_READERS = Later(
    "Readers of files by queues, and some kinds of queues, are not there.",
    "Use tf.data: TextLineDataset, TFRecordDataset, list_files.",
)
_SUPERVISOR = Later(
    "The Supervisor of early versions of TensorFlow is not there.",
    "Use tf.compat.v1.train.MonitoredTrainingSession.",
)
_GRAPH_DEF = Later(
    "A graph is not written as, or made from, a GraphDef.",
    "Build it from Python; train.Saver keeps its variables, ipu.serving a program.",
)
_CONTRIB = Later(
    "tf.contrib ended with TensorFlow 1.",
    "Use tf.nn.rnn_cell, tf.layers, tf.glorot_uniform_initializer, "
    "tf.keras.regularizers, tf.data and tf.summary, which have most of it.",
)
_SAMPLERS = Later(
    "Candidate samplers are not there.",
    "Use ipu.nn_ops.sampled_softmax_loss or nce_loss, which draw their own.",
)

_RULES: tuple[tuple[str, Later], ...] = (
    *((keras_3.pattern(row), Later(row.topic, row.instead)) for row in keras_3.ABSENT),
    (
        _words(
            r"CuDNNLSTM CuDNNGRU AbstractRNNCell RNNCellDeviceWrapper "
            r"RNNCellDropoutWrapper RNNCellResidualWrapper raw_rnn rnn_cell_impl "
            r"static_state_saving_rnn"
        ),
        _RECURRENT,
    ),
    (_words(r"rnn_cell dynamic_rnn bidirectional_dynamic_rnn"), _RECURRENT_1),
    (
        _words(
            r"conv2d_backprop_filter conv2d_backprop_input conv3d_backprop_filter "
            r"depthwise_conv2d_backprop_filter depthwise_conv2d_backprop_input "
            r"depthwise_conv2d_native fractional_avg_pool fractional_max_pool "
            r"quantized_conv2d quantized_avg_pool quantized_max_pool"
        ),
        _CONVOLUTION,
    ),
    (
        _words(r"conv3d_transpose separable_conv1d"),
        _LAYERS_1,
    ),
    (
        _words(
            r"(?:GCE|Kubernetes|SageMaker|TPU)ClusterResolver MultiWorker\w* "
            r"ParameterServer\w* TPUStrategy MirroredStrategy"
        ),
        _WORKERS,
    ),
    (
        _words(r"autoshard_cnn"),
        _SHARDING,
    ),
    (
        _words(r"estimator Estimator \w*Estimator\w* model_fn"),
        _ESTIMATOR,
    ),
    (_words(r"\w*feature_column\w* \w*dense_features\w* DenseFeatures"), _COLUMNS),
    (_words(r"keras_parameterized"), _ABSL),
    (_words(r"saved_model SavedModel"), _SAVED),
    (
        _words(
            r"pva openReport ReportJSON summary_ops_v2 "
            r"trace_pb2"
        ),
        _PROFILE,
    ),
    (
        _words(r"load_op_library load_library load_file_system_library"),
        _CUSTOM,
    ),
    (_words(r"embedded_runtime application_compile_op"), _BINARY),
    (_words(r"f8_ops popfloat_cast_to_gfloat GenericFloat"), _FORMATS),
    (_words(r"dataset_extractor"), _EXTRACTOR),
    (_words(r"sparse_placeholder string_split"), _SPARSE),
    (
        _words(
            r"TextLineReader WholeFileReader TFRecordReader IdentityReader "
            r"FixedLengthRecordReader string_input_producer match_filenames_once "
            r"PaddingFIFOQueue PriorityQueue batch_join shuffle_batch_join"
        ),
        _READERS,
    ),
    (_words(r"contrib"), _CONTRIB),
    (_words(r"Supervisor"), _SUPERVISOR),
    (_words(r"GraphDef import_graph_def \w*_meta_graph MetaGraphDef"), _GRAPH_DEF),
    (
        _words(
            r"\w+_candidate_sampler log_uniform_candidate_sampler "
            r"learned_unigram_candidate_sampler compute_accidental_hits"
        ),
        _SAMPLERS,
    ),
    (
        _words(
            r"Session InteractiveSession session placeholder\w* Placeholder Graph "
            r"disable_v2_behavior disable_eager_execution get_variable "
            r"\w*variable_scope get_default_graph get_default_session "
            r"reset_default_graph ConfigProto "
            r"graph_mode disable_resource_variables get_collection "
            r"global_variables\w* local_variables\w* MonitoredSession "
            r"variables_initializer GraphKeys as_default get_or_create_global_step "
            r"get_global_step make_one_shot_iterator "
            r"make_initializable_iterator \w*XLATestCase xla_test"
        ),
        _SESSION,
    ),
)


def _literal(name: str) -> bool:
    """Return whether a rule has the last part of a name letter by letter."""
    return name.rpartition(".")[2] in _LITERALS


_LITERALS = frozenset(
    word
    for pattern, _ in _RULES
    for word in re.findall(r"(?<=[:|])\w+(?=[|)])", pattern)
)


def lookup(name: str, known: Iterable[str] = ()) -> Later:
    """Return what is known about a name that is not there.

    Args:
        name: Full dotted name.
        known: Names that are there beside it. Of a misspelling of one nothing is known.

    Returns:
        Two sentences, both empty where nothing is known.

    Example:
        >>> lookup("keras.layers.CuDNNLSTM").topic
        'Further recurrent layers come with a later version.'
        >>> lookup("keras.layers.LSTMM", ["LSTM"]).topic
        ''
    """
    if not _literal(name) and nearest_name(name.rpartition(".")[2], known, NEAR):
        return Later()
    return _found(name)


@functools.cache
def _found(name: str) -> Later:
    for pattern, later in _RULES:
        if re.search(pattern, name):
            return later
    return Later()
