# SPDX-License-Identifier: MIT
"""The table: ``tensorflow.python.ipu`` in its three generations, tools around it."""

from __future__ import annotations

from ipu.drop_in._entries import Entry, entry, renamed
from ipu.drop_in._entries_keras import ADDONS, ALS, CTC, extensions

_INS = "ipu.drop_in.stand_ins"
_ROOT = "tensorflow.python.ipu"
_POPLAR = "tensorflow.compiler.plugin.poplar"

# Modules of later work: programs import them at the top and use them in some places.
# Each name in them gives the one error.
_OPS = (
    "all_to_all_op application_compile_op control_flow_ops cross_replica_ops "
    "custom_ops embedded_runtime embedding_ops f8_ops functional_ops "
    "grad_util_ops image_ops internal_ops math_ops nn_ops normalization_ops "
    "rand_ops reduce_scatter_op replication_ops rnn_ops slicing_ops "
    "statistics_ops within_replica_ops "
).split()
_LATER = (
    "distributed distributed.host_collective_ops distributed.popdist_strategy "
    "gradient_accumulation horovod horovod.ipu_horovod_strategy "
    "horovod.ipu_multi_replica_strategy horovod.popdist_strategy ipu_estimator "
    "ipu_multi_worker_strategy "
    "ipu_pipeline_estimator ipu_run_config ipu_session_run_hooks serving vertex_edsl "
    "data data.ops data.ops.dataset_ops dataset_extractor function eager "
    "eager.backprop ops.experimental ops.experimental.popfloat_cast_to_gfloat "
).split()
_OPTIMIZERS = (
    "cross_replica_optimizer gradient_accumulation_optimizer map_gradient_optimizer "
    "sharded_optimizer"
).split()
# messages and ops that the port generates from definitions of its own
_MESSAGES = (
    "backend_config option_flag poplar_executable_data pipeline_config"
).split()
_GENERATED = (
    "application_runtime functional grad_util pipelining popdatastream popfloat "
    "pophash popit popnn popops poprand poputil sendrecv"
).split()
# the files of layers, of optimizers and of losses
_LAYER_FILES = (
    "assume_equal_across_replicas ctc dense dropout effective_transformer "
    "embedding_lookup math normalization recomputation rnn"
).split()
_OPTIMIZER_FILES = (
    "automatic_loss_scaling_optimizer cross_replica_optimizer "
    "gradient_accumulation_optimizer ipu_wrappers map_gradient_optimizer"
).split()
_LAYERS = entry("ipu.layers", "ipu.keras.layers")
_REDUCTION = renamed("ipu.gradient_accumulation", "GradientAccumulationReductionMethod")
_FIRST_PIPELINES = renamed(
    "ipu.drop_in.first_keras",
    "PipelineModel SequentialPipelineModel PipelineSequential PipelinedModel",
)


def _later(names: list[str]) -> dict[str, Entry]:
    """Return modules that take what there is from where ``ipu`` has, or will have,
    them."""
    made = {}
    for name in names:
        last = name.rpartition(".")[2]
        sources = (f"ipu.{name}", f"ipu.ops.{last}", f"ipu.{last}")
        made[f"{_ROOT}.{name}"] = Entry(tuple(dict.fromkeys(sources)))
    return made


IPU: dict[str, Entry] = {
    **_later([*_LATER, *_OPS, *(f"ops.{name}" for name in _OPS)]),
    _ROOT: Entry(
        ("ipu",),
        {
            # shortcuts that documents use
            **renamed("ipu.ops.functional_ops", "function=outlined_function"),
            **renamed("ipu.config", "IPUConfig"),
            **renamed("ipu.ipu_strategy", "IPUStrategy IPUStrategyV1"),
            **renamed("ipu.ipu_infeed_queue", "IPUInfeedQueue IPUIterator"),
            **renamed("ipu.ipu_outfeed_queue", "IPUOutfeedQueue IPUOutfeedMode"),
        },
    ),
    f"{_ROOT}.utils": Entry(
        ("ipu.utils",),
        renamed(
            "ipu._reports.event_trace",
            "extract_graphs=extract_poplar_serialized_graphs",
        ),
    ),
    f"{_ROOT}.keras": Entry(
        ("ipu.keras",),
        {
            **renamed("ipu.drop_in.first_keras", "Model Sequential"),
            **_FIRST_PIPELINES,
        },
    ),
    f"{_ROOT}.optimizers": Entry(("ipu.optimizers",), _REDUCTION),
    **{
        f"{_ROOT}.{place}{name}": Entry((f"ipu.optimizers.{name}",), _REDUCTION)
        for place in ("", "optimizers.")
        for name in _OPTIMIZERS
    },
    **{
        f"{_ROOT}.{place}map_gradient_optimizer": Entry(
            ("ipu.optimizers.map_gradient_optimizer",),
            renamed(
                "ipu.optimizers.map_gradient_optimizer",
                "_MapGradientOptimizerInvertedChaining",
            ),
        )
        for place in ("", "optimizers.")
    },
    # of SDK 1.0
    f"{_ROOT}.ipu_optimizer": Entry(
        (), renamed("ipu.optimizers", "CrossReplicaOptimizer")
    ),
    f"{_ROOT}.keras.model": Entry(
        (), renamed("ipu.drop_in.first_keras", "Model Sequential")
    ),
    f"{_ROOT}.keras.pipeline": Entry(
        (), {**renamed("ipu.keras", "PipelineStage"), **_FIRST_PIPELINES}
    ),
    f"{_ROOT}.keras.layers": _LAYERS,
    **{f"{_ROOT}.keras.layers.{name}": _LAYERS for name in _LAYER_FILES},
    f"{_ROOT}.keras.layer_replacement": entry("ipu.drop_in.first_keras.replacement"),
    f"{_ROOT}.keras.optimizers": Entry((), ALS),
    **{f"{_ROOT}.keras.optimizers.{n}": Entry((), ALS) for n in _OPTIMIZER_FILES},
    f"{_ROOT}.keras.losses.ctc": CTC,
    f"{_ROOT}.keras.losses": Entry(("ipu.keras.losses",), CTC.names),
    **extensions(f"{_ROOT}.keras.extensions"),
    f"{_ROOT}.layers": entry("ipu.layers", "ipu.keras.layers"),
    f"{_ROOT}.ops": entry("ipu.ops"),
    f"{_ROOT}.ops.summary_ops": entry("ipu.ops.summary_ops"),
    f"{_ROOT}.summary_ops": entry("ipu.ops.summary_ops"),
    f"{_ROOT}.pipelining_ops": entry("ipu.ops.pipelining_ops"),
    f"{_ROOT}.tests": Entry(),
    f"{_ROOT}.tests.pipelining_test_util": Entry(),
    f"{_ROOT}.test_utils": entry(f"{_INS}.poplar_test_utils"),
    _POPLAR: Entry(),
    f"{_POPLAR}.tests": Entry(),
    f"{_POPLAR}.tests.test_utils": entry(f"{_INS}.poplar_test_utils"),
    f"{_POPLAR}.driver": Entry(),
    f"{_POPLAR}.driver.trace_pb2": Entry(
        (), renamed("ipu._reports.event_trace", "IpuTraceEvent")
    ),
    f"{_POPLAR}.driver.config_pb2": Entry(
        (), renamed("ipu._config.legacy", "IpuOptions")
    ),
    f"{_POPLAR}.driver.threestate_pb2": entry(f"{_INS}.three_state"),
    **{f"{_POPLAR}.driver.{name}_pb2": Entry() for name in _MESSAGES},
    f"{_POPLAR}.tools": Entry(),
    f"{_POPLAR}.tools.tensorflow_weights_extractor": Entry(),
    f"{_POPLAR}.ops": Entry(),
    **{f"{_POPLAR}.ops.gen_{name}_ops": Entry() for name in _GENERATED},
    f"{_POPLAR}.ops.gen_ipu_ops": Entry(
        (), renamed("ipu.ops.summary_ops", "ipu_event_trace")
    ),
    "popdist": entry("ipu.drop_in.popdist"),
    "popdist.tensorflow": entry("ipu.drop_in.popdist.tensorflow"),
    "ipu_tensorflow_addons": Entry(),
    "ipu_tensorflow_addons.keras": Entry(),
    "ipu_tensorflow_addons.keras.layers": _LAYERS,
    **{f"ipu_tensorflow_addons.keras.layers.{name}": _LAYERS for name in _LAYER_FILES},
    "ipu_tensorflow_addons.keras.losses": CTC,
    "ipu_tensorflow_addons.keras.losses.ctc": CTC,
    "ipu_tensorflow_addons.keras.optimizers": Entry((), {**ALS, **ADDONS}),
    "pva": Entry(),
}
