# SPDX-License-Identifier: MIT
"""The IPU programming model for TensorFlow 2, without an IPU and without TensorFlow.

``ipu.tf`` is the TensorFlow-2-style front end, ``ipu.keras`` the Keras-like face, and
the modules beside them are the IPU API under its known names. The package is
independent of Graphcore and of TensorFlow; their names say what it is compatible with.
Modules are loaded when they are first used.

Example:
    >>> from ipu import tf
    >>> float(tf.reduce_sum(tf.constant([1.0, 2.0, 3.0])))
    6.0
"""

import os as _os
from typing import TYPE_CHECKING

from ipu import _core
from ipu._device.threads import num_threads, set_num_threads
from ipu._text.faces import face
from ipu._version import __version__

if TYPE_CHECKING:
    from ipu import (
        autoshard,
        config,
        dataset_benchmark,
        drop_in,
        eager,
        ipu_compiler,
        ipu_estimator,
        ipu_infeed_queue,
        ipu_outfeed_queue,
        ipu_pipeline_estimator,
        ipu_run_config,
        ipu_strategy,
        keras,
        layers,
        loops,
        ops,
        optimizers,
        profiler,
        scopes,
        sharding,
        tf,
        utils,
    )
    from ipu._reports.compare import compare_schedules
    from ipu._reports.timetable import Timetable
    from ipu.keras.engine.pipelines.auto_stages import auto_stages
    from ipu.ops import (
        control_flow_ops,
        cross_replica_ops,
        embedding_ops,
        functional_ops,
        grad_util_ops,
        image_ops,
        internal_ops,
        math_ops,
        nn_ops,
        normalization_ops,
        pipelining_ops,
        rand_ops,
        replication_ops,
        rnn_ops,
        slicing_ops,
        statistics_ops,
    )
    from ipu.ops.functional_ops import outlined_function

__all__ = [
    "Timetable",
    "__version__",
    "auto_stages",
    "autoshard",
    "compare_schedules",
    "config",
    "control_flow_ops",
    "cross_replica_ops",
    "dataset_benchmark",
    "drop_in",
    "eager",
    "embedding_ops",
    "functional_ops",
    "grad_util_ops",
    "image_ops",
    "internal_ops",
    "ipu_compiler",
    "ipu_estimator",
    "ipu_infeed_queue",
    "ipu_outfeed_queue",
    "ipu_pipeline_estimator",
    "ipu_run_config",
    "ipu_strategy",
    "keras",
    "layers",
    "loops",
    "math_ops",
    "nn_ops",
    "normalization_ops",
    "num_threads",
    "ops",
    "optimizers",
    "outlined_function",
    "pipelining_ops",
    "profiler",
    "rand_ops",
    "replication_ops",
    "rnn_ops",
    "scopes",
    "set_num_threads",
    "sharding",
    "slicing_ops",
    "statistics_ops",
    "tf",
    "utils",
]

# frames of files below this folder are not the user's
_core.set_package_dir(_os.path.dirname(__file__) + _os.sep)
if any(name.startswith(("IPU_", "TF_POPLAR")) for name in _os.environ):
    from ipu._config.environment import warn_of_mistakes as _warn_of_mistakes

    _warn_of_mistakes()


_OWN = ("__version__", "num_threads", "set_num_threads")
# names that are no modules
_MEMBERS = {
    "Timetable": "ipu._reports.timetable:Timetable",
    "auto_stages": "ipu.keras.engine.pipelines.auto_stages:auto_stages",
    "compare_schedules": "ipu._reports.compare:compare_schedules",
    "outlined_function": "ipu.ops.functional_ops:outlined_function",
}
_MODULES = {
    name: f"ipu.ops.{name}" if name.endswith("_ops") else f"ipu.{name}"
    for name in __all__
    if name not in _OWN
}


def load_ipython_extension(ipython: object) -> None:
    """``%load_ext ipu``: serve TensorFlow's and Keras's module names in a notebook."""
    from ipu import drop_in

    drop_in.install()


def unload_ipython_extension(ipython: object) -> None:
    """``%unload_ext ipu``."""
    from ipu import drop_in

    drop_in.uninstall()


if not TYPE_CHECKING:
    __getattr__, __dir__ = face(__name__, __all__, {**_MODULES, **_MEMBERS})
