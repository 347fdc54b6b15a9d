# SPDX-License-Identifier: MIT
"""Configuration as the first SDK generation writes it: an options object and setters.

``ipu.utils`` offers these functions and those of ``legacy_options``. The object holds
an ``IPUConfig``, so that both families describe the same devices, and the options of
profiling, which have no successor there.

Each setter changes the object that it is given and returns it. Errors are plain
``Exception`` where programs expect that.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ipu._config.enums import (
    DeviceConnectionType,
    ExecutionProfileType,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    SelectionOrder,
)
from ipu._text.faces import defined
from ipu.config import IPUConfig

_SCHEDULERS = {
    "": SchedulingAlgorithm.CHOOSE_BEST,
    "Clustering": SchedulingAlgorithm.CLUSTERING,
    "PostOrder": SchedulingAlgorithm.POST_ORDER,
    "LookAhead": SchedulingAlgorithm.LOOK_AHEAD,
    "ShortestPath": SchedulingAlgorithm.SHORTEST_PATH,
}


class IpuOptions:
    """What :func:`create_ipu_config` makes and the setters change.

    Attributes:
        config: The options that ``IPUConfig`` has as well.
        profiling: Options of profiling, reports and verification, kept by name.

    Example:
        >>> type(ipu.utils.create_ipu_config()).__name__
        'IpuOptions'
    """

    def __init__(self) -> None:
        self.config = IPUConfig()
        self.profiling: dict[str, Any] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IpuOptions):
            return NotImplemented
        return (
            self.config.to_dict() == other.config.to_dict()
            and self.profiling == other.profiling
        )

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> IpuOptions:
        made = IpuOptions()
        made.config = copy.deepcopy(self.config, memo)
        made.profiling = copy.deepcopy(self.profiling, memo)
        return made

    def __repr__(self) -> str:
        return f"IpuOptions({self.config!r}, profiling={self.profiling!r})"


def _checked_options(opts: Any) -> IpuOptions:
    """``opts``, if it is an options object.

    Raises:
        Exception: It is something else.
    """
    if not isinstance(opts, IpuOptions):
        raise Exception(
            "`opts` must be what create_ipu_config() returned. "
            f"Received: {opts!r} of type {type(opts).__name__}."
        )
    return opts


def _profile_execution(value: Any, profiling: bool) -> ExecutionProfileType:
    if value is None or value is False:
        return ExecutionProfileType.NO_PROFILE
    if not profiling:
        raise Exception(
            "`profiling` is required when `profile_execution` is set. "
            f"Received: profile_execution={value!r}. Pass profiling=True."
        )
    if value is True:
        return ExecutionProfileType.DEVICE_PROFILE
    if isinstance(value, ExecutionProfileType):
        return value
    raise Exception(
        "`profile_execution` must be True, False or an ExecutionProfileType. "
        f"Received: {value!r}."
    )


def create_ipu_config(
    profiling: bool = False,
    enable_ipu_events: bool = False,
    use_poplar_text_report: bool = False,
    use_poplar_cbor_report: bool = False,
    profile_execution: bool | ExecutionProfileType | None = None,
    enable_poplar_serialized_graph: bool = False,
    report_every_nth_execution: int = 0,
    max_report_size: int = 0x10000000,
    report_directory: str = "",
    scheduler_selection: str = "",
    always_rearrange_copies_on_the_host: bool = False,
    merge_infeed_io_copies: bool = False,
    disable_graph_convolution_caching: bool = False,
    disable_graph_outlining: bool = False,
    retain_control_dependencies: bool = False,
    max_cross_replica_sum_buffer_size: int = 0,
    max_inter_ipu_copies_buffer_size: int = 0,
    max_scheduler_lookahead_depth: int = 5,
    max_scheduler_search_space_size: int = 64,
    prefetch_data_streams: bool = True,
    selection_order: SelectionOrder | None = None,
    enable_experimental_remote_buffer_embedding: bool = False,
) -> IpuOptions:
    """Start a configuration in the first generation's way.

    Args:
        profiling: Ask for compilation reports; kept, there are none yet.
        enable_ipu_events: Ask for events without reports; kept, as above.
        use_poplar_text_report: Reports as text; kept.
        use_poplar_cbor_report: Reports as CBOR; kept.
        profile_execution: Ask for execution reports: True, False, or what to count.
        enable_poplar_serialized_graph: Ask for the graph; kept.
        report_every_nth_execution: How often to report; kept.
        max_report_size: Bytes above which a report is dropped; kept.
        report_directory: Where reports go; kept.
        scheduler_selection: "", "Clustering", "PostOrder", "LookAhead" or
            "ShortestPath".
        always_rearrange_copies_on_the_host, merge_infeed_io_copies,
            disable_graph_convolution_caching, disable_graph_outlining: Hardware only.
        retain_control_dependencies: No longer there; must be False.
        max_cross_replica_sum_buffer_size, max_inter_ipu_copies_buffer_size: Bytes.
            Hardware only.
        max_scheduler_lookahead_depth, max_scheduler_search_space_size: Of
            "LookAhead".
        prefetch_data_streams: Whether the host fetches input ahead.
        selection_order: Which IPU serves which device number; None is AUTO.
        enable_experimental_remote_buffer_embedding: Hardware only.

    Returns:
        The options, for the setters and ``configure_ipu_system``.

    Raises:
        Exception: ``profiling`` with ``enable_ipu_events``; ``profile_execution``
            without ``profiling`` or of another type; ``retain_control_dependencies``.
        ValueError: There is no such scheduler.

    Source: ``ipu.utils.create_ipu_config`` of SDK 1.0 to 2.3.

    Example:
        >>> opts = ipu.utils.create_ipu_config()
        >>> opts = ipu.utils.auto_select_ipus(opts, 1)
        >>> ipu.utils.configure_ipu_system(opts)
    """
    if profiling and enable_ipu_events:
        raise Exception(
            "`profiling` and `enable_ipu_events` are mutually exclusive. Pass one of "
            "them."
        )
    if retain_control_dependencies:
        raise Exception(
            "`retain_control_dependencies` is deprecated and cannot be set. Leave it "
            "out."
        )
    if scheduler_selection not in _SCHEDULERS:
        known = ", ".join(repr(name) for name in _SCHEDULERS)
        raise ValueError(
            f"`scheduler_selection` must be one of {known}. "
            f"Received: {scheduler_selection!r}."
        )
    execution = _profile_execution(profile_execution, profiling)
    made = IpuOptions()
    made.profiling = {
        "enable_compilation_trace": profiling,
        "enable_ipu_trace_events": profiling or enable_ipu_events,
        "enable_poplar_reports_text": use_poplar_text_report,
        "enable_poplar_reports_cbor": use_poplar_cbor_report,
        "execution_trace_type": execution,
        "enable_poplar_graph": enable_poplar_serialized_graph,
        "report_every_nth_execution": report_every_nth_execution,
        "max_report_size": max_report_size,
        "report_directory": report_directory,
        "disable_graph_convolution_caching": disable_graph_convolution_caching,
    }
    config = made.config
    config.ipu_model.version = "ipu1"
    config.selection_order = selection_order or SelectionOrder.AUTO
    experimental = config.experimental
    experimental.always_rearrange_copies_on_the_host = bool(
        always_rearrange_copies_on_the_host
    )
    experimental.enable_remote_buffer_embedding = bool(
        enable_experimental_remote_buffer_embedding
    )
    optimizations = config.optimizations
    optimizations.merge_remote_buffers = MergeRemoteBuffersBehaviour.NO_MERGING
    optimizations.merge_infeed_io_copies = bool(merge_infeed_io_copies)
    optimizations.enable_graph_outlining = not disable_graph_outlining
    optimizations.prefetch_data_streams = bool(prefetch_data_streams)
    optimizations.maximum_cross_replica_sum_buffer_size = int(
        max_cross_replica_sum_buffer_size
    )
    optimizations.maximum_inter_ipu_copies_buffer_size = int(
        max_inter_ipu_copies_buffer_size
    )
    scheduling = config.scheduling
    scheduling.algorithm = _SCHEDULERS[scheduler_selection]
    scheduling.maximum_scheduler_lookahead_depth = int(max_scheduler_lookahead_depth)
    scheduling.maximum_scheduler_search_space_size = int(
        max_scheduler_search_space_size
    )
    return made


# --- devices -----------------------------------------------------------------------


def _refuse_second_selection(opts: IpuOptions) -> None:
    if opts.config.auto_select_ipus or opts.config.select_ipus:
        raise Exception(
            "IPU devices have already been configured. Call auto_select_ipus or "
            "select_ipus once, on options of their own."
        )


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def auto_select_ipus(opts: IpuOptions, num_ipus: int | Sequence[int]) -> IpuOptions:
    """Choose how many IPUs there are.

    Args:
        opts: The options.
        num_ipus: A number for one device, or one number for each device.

    Returns:
        ``opts``.

    Raises:
        Exception: ``num_ipus`` is something else, or devices are chosen already.

    Example:
        >>> auto_select_ipus(create_ipu_config(), [1, 2]).config.auto_select_ipus
        [1, 2]
    """
    opts = _checked_options(opts)
    _refuse_second_selection(opts)
    many = isinstance(num_ipus, (list, tuple))
    each: list[Any] = list(num_ipus) if many else [num_ipus]  # type: ignore[arg-type]
    if not each or not all(_is_int(one) for one in each):
        raise Exception(
            "`num_ipus` must be an integer or list of integers. "
            f"Received: {num_ipus!r}."
        )
    opts.config.auto_select_ipus = each
    return opts


def select_ipus(opts: IpuOptions, indices: Sequence[int]) -> IpuOptions:
    """Choose IPUs by hardware id, one for each device.

    Args:
        opts: The options.
        indices: The ids, each once.

    Returns:
        ``opts``.

    Raises:
        Exception: ``indices`` is not a list or tuple of unique integers, or devices are
            chosen already.

    Example:
        >>> select_ipus(create_ipu_config(), [2, 3]).config.select_ipus
        [2, 3]
    """
    opts = _checked_options(opts)
    _refuse_second_selection(opts)
    if not isinstance(indices, (list, tuple)) or not all(_is_int(i) for i in indices):
        raise Exception(
            f"`indices` must be a list or tuple of hardware ids. Received: {indices!r}."
        )
    if len(set(indices)) != len(indices):
        raise Exception(f"All device indices must be unique. Received: {indices!r}.")
    opts.config.select_ipus = list(indices)
    return opts


def set_ipu_model_options(
    opts: IpuOptions,
    compile_ipu_code: bool = True,
    tiles_per_ipu: int | None = None,
    ipu_model_version: str | None = None,
) -> IpuOptions:
    """Describe the IPU that is modelled.

    Args:
        opts: The options.
        compile_ipu_code: Count code in the memory report.
        tiles_per_ipu: Tiles of an IPU; None for those of the version.
        ipu_model_version: "ipu1", "ipu2" or "ipu21"; None is "ipu1".

    Returns:
        ``opts``.

    Example:
        >>> opts = set_ipu_model_options(create_ipu_config(), tiles_per_ipu=128)
        >>> opts.config.ipu_model.tiles_per_ipu
        128
    """
    opts = _checked_options(opts)
    model = opts.config.ipu_model
    model.compile_ipu_code = bool(compile_ipu_code)
    model.tiles_per_ipu = int(tiles_per_ipu or 0)
    model.version = ipu_model_version or "ipu1"
    return opts


def set_ipu_connection_type(
    opts: IpuOptions,
    connection_type: DeviceConnectionType | None = None,
    ipu_version: int | str | None = None,
    enable_remote_buffers: bool = False,
) -> IpuOptions:
    """Choose when devices are attached.

    Args:
        opts: The options.
        connection_type: A ``DeviceConnectionType``; None is ALWAYS.
        ipu_version: 1, 2 or a name such as "ipu2"; needed for NEVER.
        enable_remote_buffers: Assume remote buffers when compiling without a device.

    Returns:
        ``opts``.

    Raises:
        Exception: The type is NEVER and there is no version.

    Example:
        >>> opts = ipu.utils.create_ipu_config()
        >>> opts = set_ipu_connection_type(opts, DeviceConnectionType.ON_DEMAND)
        >>> opts.config.device_connection.type.name
        'ON_DEMAND'
    """
    opts = _checked_options(opts)
    chosen = connection_type or DeviceConnectionType.ALWAYS
    if chosen is DeviceConnectionType.NEVER and not ipu_version:
        raise Exception(
            "`ipu_version` must be set when `connection_type` is NEVER. Pass "
            "ipu_version=2."
        )
    connection = opts.config.device_connection
    connection.type = chosen
    if ipu_version is not None:
        numbered = isinstance(ipu_version, int)
        connection.version = f"ipu{ipu_version}" if numbered else str(ipu_version)
    connection.enable_remote_buffers = bool(enable_remote_buffers)
    return opts


def set_experimental_multi_replica_distribution_options(
    opts: IpuOptions, process_count: int, process_index: int
) -> IpuOptions:
    """Say which of several processes this one is.

    Raises:
        ValueError: ``process_index`` is not in [0, process_count).

    Example:
        >>> opts = ipu.utils.create_ipu_config()
        >>> opts = set_experimental_multi_replica_distribution_options(opts, 2, 1)
        >>> opts.config.experimental.multi_replica_distribution.process_index
        1
    """
    opts = _checked_options(opts)
    if not 0 <= process_index < process_count:
        raise ValueError(
            "process_index must be in the range [0, process_count). Received: "
            f"process_index = {process_index}, process_count = {process_count}."
        )
    distribution = opts.config.experimental.multi_replica_distribution
    distribution.process_count = process_count
    distribution.process_index = process_index
    return opts


if not TYPE_CHECKING:
    __all__ = defined(__name__)
