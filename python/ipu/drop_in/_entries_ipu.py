# SPDX-License-Identifier: MIT
"""The table: ``tensorflow.python.ipu`` in its three generations, tools around it."""

from __future__ import annotations

from ipu.drop_in._entries import Entry, entry, renamed

__all__ = ["IPU"]

_INS = "ipu.drop_in.stand_ins"
_ROOT = "tensorflow.python.ipu"
_POPLAR = "tensorflow.compiler.plugin.poplar"

IPU: dict[str, Entry] = {
    _ROOT: Entry(
        ("ipu",),
        {
            # shortcuts that documents use
            **renamed("ipu.config", "IPUConfig"),
            **renamed("ipu.ipu_strategy", "IPUStrategy IPUStrategyV1"),
            **renamed("ipu.ipu_infeed_queue", "IPUInfeedQueue IPUIterator"),
            **renamed("ipu.ipu_outfeed_queue", "IPUOutfeedQueue IPUOutfeedMode"),
        },
    ),
    f"{_ROOT}.utils": entry("ipu.utils", f"{_INS}.event_trace"),
    f"{_ROOT}.keras": entry("ipu.keras"),
    f"{_ROOT}.keras.layers": entry("ipu.keras.layers"),
    f"{_ROOT}.keras.optimizers": Entry(),
    f"{_ROOT}.keras.losses": entry("ipu.keras.losses"),
    f"{_ROOT}.keras.extensions": Entry(
        (), renamed("ipu.keras", "PipelineStage ReplicatedMetricReductionMethod")
    ),
    f"{_ROOT}.layers": entry("ipu.keras.layers"),
    f"{_ROOT}.ops": entry("ipu.ops"),
    f"{_ROOT}.ops.summary_ops": entry("ipu.ops.summary_ops", f"{_INS}.event_trace"),
    f"{_ROOT}.summary_ops": entry("ipu.ops.summary_ops", f"{_INS}.event_trace"),
    f"{_ROOT}.pipelining_ops": entry("ipu.ops.pipelining_ops"),
    f"{_ROOT}.test_utils": entry(f"{_INS}.poplar_test_utils"),
    _POPLAR: Entry(),
    f"{_POPLAR}.tests": Entry(),
    f"{_POPLAR}.tests.test_utils": entry(f"{_INS}.poplar_test_utils"),
    f"{_POPLAR}.driver": Entry(),
    f"{_POPLAR}.driver.trace_pb2": Entry(
        (), renamed(f"{_INS}.event_trace", "IpuTraceEvent")
    ),
    f"{_POPLAR}.driver.config_pb2": Entry(
        (), renamed("ipu._legacy_config", "IpuOptions")
    ),
    f"{_POPLAR}.ops": Entry(),
    f"{_POPLAR}.ops.gen_ipu_ops": Entry(
        (), renamed(f"{_INS}.event_trace", "ipu_event_trace")
    ),
    "ipu_tensorflow_addons": Entry(),
    "ipu_tensorflow_addons.keras": Entry(),
    "ipu_tensorflow_addons.keras.layers": entry("ipu.keras.layers"),
    "ipu_tensorflow_addons.keras.optimizers": Entry(),
    "pva": Entry(),
}
