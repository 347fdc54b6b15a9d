# SPDX-License-Identifier: MIT
"""The IPU programming model for TensorFlow 2, without an IPU and without TensorFlow.

``ipu.tf`` is the TensorFlow-2-style front end, ``ipu.keras`` the Keras-like face, and
the modules beside them are the IPU API under its known names. The package is
independent of Graphcore and of TensorFlow; their names say what it is compatible with.
Modules are loaded when they are first used.

Example:
    >>> float(tf.reduce_sum(tf.constant([1.0, 2.0, 3.0])))
    6.0
"""

import os as _os
import sys as _sys
from typing import TYPE_CHECKING, Any as _Any

from ipu import _core
from ipu._device.observers import observers as _observers
from ipu._device.threads import (
    num_threads as num_threads,
    pin_threads as pin_threads,
    set_num_threads as set_num_threads,
)
from ipu._text.exports import OtherModules as _OtherModules, export
from ipu._version import __version__ as __version__

if TYPE_CHECKING:
    from ipu import (
        autoshard as autoshard,
        config as config,
        data as data,
        dataset_benchmark as dataset_benchmark,
        distributed as distributed,
        drop_in as drop_in,
        eager as eager,
        horovod as horovod,
        ipu_compiler as ipu_compiler,
        ipu_estimator as ipu_estimator,
        ipu_infeed_queue as ipu_infeed_queue,
        ipu_multi_worker_strategy as ipu_multi_worker_strategy,
        ipu_outfeed_queue as ipu_outfeed_queue,
        ipu_pipeline_estimator as ipu_pipeline_estimator,
        ipu_run_config as ipu_run_config,
        ipu_session_run_hooks as ipu_session_run_hooks,
        ipu_strategy as ipu_strategy,
        keras as keras,
        layers as layers,
        loops as loops,
        machine as machine,
        ops as ops,
        optimizers as optimizers,
        profiler as profiler,
        scopes as scopes,
        serving as serving,
        sharding as sharding,
        tf as tf,
        utils as utils,
        vertex_edsl as vertex_edsl,
    )
    from ipu._reports.compare import compare_schedules as compare_schedules
    from ipu._reports.timetable import Timetable as Timetable
    from ipu.keras.engine.pipelines.auto_stages import auto_stages as auto_stages
    from ipu.ops import (
        all_to_all_op as all_to_all_op,
        control_flow_ops as control_flow_ops,
        cross_replica_ops as cross_replica_ops,
        custom_ops as custom_ops,
        embedding_ops as embedding_ops,
        functional_ops as functional_ops,
        grad_util_ops as grad_util_ops,
        image_ops as image_ops,
        internal_ops as internal_ops,
        math_ops as math_ops,
        nn_ops as nn_ops,
        normalization_ops as normalization_ops,
        pipelining_ops as pipelining_ops,
        rand_ops as rand_ops,
        reduce_scatter_op as reduce_scatter_op,
        replication_ops as replication_ops,
        rnn_ops as rnn_ops,
        slicing_ops as slicing_ops,
        statistics_ops as statistics_ops,
        summary_ops as summary_ops,
        within_replica_ops as within_replica_ops,
    )
    from ipu.ops.functional_ops import outlined_function as outlined_function

_MODULES = """
autoshard config data dataset_benchmark distributed drop_in eager horovod
ipu_compiler ipu_estimator
ipu_infeed_queue ipu_multi_worker_strategy ipu_outfeed_queue
ipu_pipeline_estimator ipu_run_config
ipu_session_run_hooks ipu_strategy keras layers loops machine ops optimizers profiler
scopes serving sharding tf utils vertex_edsl
all_to_all_op control_flow_ops cross_replica_ops custom_ops embedding_ops functional_ops
grad_util_ops image_ops internal_ops math_ops nn_ops normalization_ops pipelining_ops
rand_ops reduce_scatter_op replication_ops rnn_ops slicing_ops statistics_ops
summary_ops within_replica_ops
""".split()
# names that are not modules
_MEMBERS = {
    "Timetable": "ipu._reports.timetable:Timetable",
    "auto_stages": "ipu.keras.engine.pipelines.auto_stages:auto_stages",
    "compare_schedules": "ipu._reports.compare:compare_schedules",
    "outlined_function": "ipu.ops.functional_ops:outlined_function",
}
__all__ = sorted(
    [
        *_MODULES,
        *_MEMBERS,
        "__version__",
        "num_threads",
        "pin_threads",
        "set_num_threads",
    ]
)

# frames of files below this folder are not the user's
_core.set_package_dir(_os.path.dirname(__file__) + _os.sep)
if any(name.startswith(("IPU_", "TF_POPLAR")) for name in _os.environ):
    from ipu._config.environment import warn_of_mistakes as _warn_of_mistakes

    _warn_of_mistakes()


_sys.meta_path.append(_OtherModules)


def _report(build: _Any, device: _Any) -> _Any:
    """Report a program where its device's options or the environment ask for it."""
    from ipu._config.report_requests import request_of

    request = request_of(device.options, device.profiling)
    if request is None:
        return None
    from ipu._reports import program_reports

    return program_reports.begin(build, device, request)


_observers.append(_report)


def load_ipython_extension(ipython: object) -> None:
    """Serve TensorFlow's and Keras's module names in a notebook."""
    from ipu import drop_in

    drop_in.install()


def unload_ipython_extension(ipython: object) -> None:
    """Undo ``%load_ext ipu``."""
    from ipu import drop_in

    drop_in.uninstall()


if not TYPE_CHECKING:
    _LAZY = {
        name: f"ipu.ops.{name}" if name.endswith(("_op", "_ops")) else f"ipu.{name}"
        for name in _MODULES
    }
    export(__name__, None, {**_LAZY, **_MEMBERS})
