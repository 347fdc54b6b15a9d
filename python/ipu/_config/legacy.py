# SPDX-License-Identifier: MIT
"""Configuration as the first SDK generation writes it: an options object and setters.

``ipu.utils`` offers these functions. The object holds an ``IPUConfig``, so that both
families describe the same devices, and the options of profiling, which have no
successor there.

Each setter changes the object that it is given and returns it. Errors are plain
``Exception`` where programs expect that.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ipu._config.enums import (
    DeviceConnectionType,
    ExecutionProfileType,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    SelectionOrder,
    StochasticRoundingBehaviour,
)
from ipu._text.exports import defined
from ipu.config import IPUConfig

_SCHEDULERS = {
    "": SchedulingAlgorithm.CHOOSE_BEST,
    "Clustering": SchedulingAlgorithm.CLUSTERING,
    "PostOrder": SchedulingAlgorithm.POST_ORDER,
    "LookAhead": SchedulingAlgorithm.LOOK_AHEAD,
    "ShortestPath": SchedulingAlgorithm.SHORTEST_PATH,
}
_MERGING = {
    True: MergeRemoteBuffersBehaviour.MERGE,
    False: MergeRemoteBuffersBehaviour.NO_MERGING,
    None: MergeRemoteBuffersBehaviour.IF_BENEFICIAL,
}


class IpuOptions:
    """Options that :func:`create_ipu_config` makes and the setters change.

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
    """Return ``opts``, if it is an options object.

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
        profiling: Ask for events with reports of what programs would cost on an IPU
            (``ops.summary_ops.get_ipu_reports``).
        enable_ipu_events: Ask for events without reports.
        use_poplar_text_report: Reports as text; else they are JSON.
        use_poplar_cbor_report: Kept: reports are JSON.
        profile_execution: Ask for execution reports: True, False, or what to count.
        enable_poplar_serialized_graph: Ask for the graph, in this package's text form.
        report_every_nth_execution: Every so many executions have a report; 0: the
            first alone.
        max_report_size: Bytes above which a report is dropped, with a warning.
        report_directory: Where reports go, in a folder for each program; events have
            the name of the file then.
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
    """Set which of several processes this one is.

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


# --- arithmetic and compiling ------------------------------------------------------


def set_floating_point_behaviour_options(
    opts: IpuOptions,
    inv: bool = True,
    div0: bool = True,
    oflo: bool = True,
    esr: bool = True,
    nanoo: bool = True,
) -> IpuOptions:
    """Choose traps and rounding; all are on once this is called.

    Args:
        opts: The options.
        inv: Trap invalid operations.
        div0: Trap divisions by zero.
        oflo: Trap overflow.
        esr: Round float16 stochastically.
        nanoo: Overflow of float16 gives NaN.

    Returns:
        ``opts``.

    Example:
        >>> opts = ipu.utils.create_ipu_config()
        >>> opts = set_floating_point_behaviour_options(opts, oflo=False)
        >>> traps = opts.config.floating_point_behaviour
        >>> traps.inv, traps.oflo
        (True, False)
    """
    opts = _checked_options(opts)
    behaviour = opts.config.floating_point_behaviour
    behaviour.inv, behaviour.div0 = bool(inv), bool(div0)
    behaviour.oflo, behaviour.nanoo = bool(oflo), bool(nanoo)
    behaviour.esr = StochasticRoundingBehaviour.from_bool(bool(esr))
    return opts


def set_recomputation_options(
    opts: IpuOptions,
    allow_recompute: bool = True,
    allow_stateful_recompute: bool | None = None,
) -> IpuOptions:
    """Recompute activations in training instead of keeping them.

    Args:
        opts: The options.
        allow_recompute: Whether to.
        allow_stateful_recompute: Deprecated, accepted without effect.

    Returns:
        ``opts``.

    Example:
        >>> opts = set_recomputation_options(ipu.utils.create_ipu_config())
        >>> opts.config.allow_recompute
        True
    """
    del allow_stateful_recompute
    opts = _checked_options(opts)
    opts.config.allow_recompute = bool(allow_recompute)
    return opts


def set_optimization_options(
    opts: IpuOptions,
    combine_embedding_lookups: bool = False,
    combine_matmuls: bool = False,
    max_cross_replica_sum_buffer_size: int = 0,
    max_reduce_scatter_buffer_size: int = 0,
    max_inter_ipu_copies_buffer_size: int = 0,
    max_send_recv_cluster_size: int = 0,
    minimum_remote_tensor_size: int = 128,
    merge_remote_buffers: bool | None = False,
    gather_simplifier: bool = True,
    triangular_solve_expander_block_size: int = 0,
    enable_fast_math: bool = False,
) -> IpuOptions:
    """Choose optimisations, as ``IPUConfig.optimizations`` describes them.

    Returns:
        ``opts``.

    Raises:
        ValueError: ``merge_remote_buffers`` is not True, False or None.

    Example:
        >>> opts = ipu.utils.create_ipu_config()
        >>> opts = set_optimization_options(opts, combine_matmuls=True)
        >>> opts.config.optimizations.combine_matmuls
        True
    """
    opts = _checked_options(opts)
    if merge_remote_buffers not in (True, False, None):
        raise ValueError(
            "`merge_remote_buffers` must be True, False or None. "
            f"Received: {merge_remote_buffers!r}."
        )
    chosen = opts.config.optimizations
    chosen.combine_embedding_lookups = bool(combine_embedding_lookups)
    chosen.combine_matmuls = bool(combine_matmuls)
    chosen.maximum_cross_replica_sum_buffer_size = max_cross_replica_sum_buffer_size
    chosen.maximum_reduce_scatter_buffer_size = max_reduce_scatter_buffer_size
    chosen.maximum_inter_ipu_copies_buffer_size = max_inter_ipu_copies_buffer_size
    chosen.maximum_send_recv_cluster_size = max_send_recv_cluster_size
    chosen.minimum_remote_tensor_size = minimum_remote_tensor_size
    chosen.merge_remote_buffers = _MERGING[merge_remote_buffers]
    chosen.enable_gather_simplifier = bool(gather_simplifier)
    chosen.triangular_solve_expander_block_size = triangular_solve_expander_block_size
    chosen.math.fast = bool(enable_fast_math)
    return opts


def set_norm_options(
    opts: IpuOptions, use_stable_statistics: bool = False
) -> IpuOptions:
    """Choose how normalisations compute their variance.

    Example:
        >>> opts = ipu.utils.create_ipu_config()
        >>> opts = set_norm_options(opts, use_stable_statistics=True)
        >>> opts.config.norms.use_stable_statistics
        True
    """
    opts = _checked_options(opts)
    opts.config.norms.use_stable_statistics = bool(use_stable_statistics)
    return opts


def set_io_tile_options(
    opts: IpuOptions, num_io_tiles: int, place_ops_on_io_tiles: bool | None = None
) -> IpuOptions:
    """Set tiles apart for data that comes and goes.

    Args:
        opts: The options.
        num_io_tiles: How many.
        place_ops_on_io_tiles: Overlap input and output with computing; None keeps it.

    Returns:
        ``opts``.

    Raises:
        ValueError: Ops are to be placed on zero tiles.

    Example:
        >>> opts = set_io_tile_options(ipu.utils.create_ipu_config(), 64, True)
        >>> opts.config.io_tiles.num_io_tiles
        64
    """
    opts = _checked_options(opts)
    if place_ops_on_io_tiles and num_io_tiles == 0:
        raise ValueError(
            "Cannot place ops on I/O tiles when num_io_tiles is 0. Pass a positive "
            "num_io_tiles."
        )
    tiles = opts.config.io_tiles
    tiles.num_io_tiles = num_io_tiles
    if place_ops_on_io_tiles is not None:
        tiles.place_ops_on_io_tiles = bool(place_ops_on_io_tiles)
    return opts


def _dictionary(name: str, value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Exception(f"`{name}` must be a dictionary. Received: {value!r}.")
    return {str(key): str(one) for key, one in value.items()}


def _with_strings(opts: Any, option: str, argument: str, given: Any) -> IpuOptions:
    """Return ``opts`` with more string options in one of its ``IPUConfig``."""
    checked = _checked_options(opts)
    checked.config._get(option).update(_dictionary(argument, given))
    return checked


def set_compilation_options(
    opts: IpuOptions, compilation_options: Mapping[str, Any] | None = None
) -> IpuOptions:
    """Add string options of the compiler; repeated calls add up.

    Raises:
        Exception: They are not dictionaries.

    Example:
        >>> opts = ipu.utils.create_ipu_config()
        >>> opts = set_compilation_options(opts, {"debug.x": True})
        >>> opts.config.compilation_poplar_options
        {'debug.x': 'True'}
    """
    option = "compilation_poplar_options"
    return _with_strings(opts, option, "compilation_options", compilation_options)


def set_convolution_options(
    opts: IpuOptions, convolution_options: Mapping[str, Any] | None = None
) -> IpuOptions:
    """Add string options of convolutions, as :func:`set_compilation_options`.

    Example:
        >>> opts = ipu.utils.create_ipu_config()
        >>> opts = set_convolution_options(opts, {"availableMemoryProportion": "0.3"})
        >>> opts.config.convolutions.poplar_options
        {'availableMemoryProportion': '0.3'}
    """
    option = "convolutions.poplar_options"
    return _with_strings(opts, option, "convolution_options", convolution_options)


def set_matmul_options(
    opts: IpuOptions,
    matmul_options: Mapping[str, Any] | None = None,
    clear_pass_type: bool = False,
) -> IpuOptions:
    """Add string options of matrix products, as :func:`set_compilation_options`.

    Example:
        >>> opts = ipu.utils.create_ipu_config()
        >>> opts = set_matmul_options(opts, {"availableMemoryProportion": "0.3"})
        >>> opts.config.matmuls.poplar_options
        {'availableMemoryProportion': '0.3'}
    """
    option = "matmuls.poplar_options"
    opts = _with_strings(opts, option, "matmul_options", matmul_options)
    opts.config.matmuls.clear_pass_type = bool(clear_pass_type)
    return opts


def set_pooling_options(
    opts: IpuOptions, pooling_options: Mapping[str, Any] | None = None
) -> IpuOptions:
    """Add string options of pooling, as :func:`set_compilation_options`.

    Example:
        >>> opts = ipu.utils.create_ipu_config()
        >>> opts = set_pooling_options(opts, {"poolUseIntrospectiveMapping": "false"})
        >>> opts.config.pooling.poplar_options
        {'poolUseIntrospectiveMapping': 'false'}
    """
    option = "pooling.poplar_options"
    return _with_strings(opts, option, "pooling_options", pooling_options)


def set_gcl_options(
    opts: IpuOptions,
    num_io_tiles: int = 0,
    gcl_options: Mapping[str, Any] | None = None,
) -> IpuOptions:
    """Add string options of collectives.

    Raises:
        TypeError: They are not dictionaries.

    Example:
        >>> opts = ipu.utils.create_ipu_config()
        >>> opts = set_gcl_options(opts, gcl_options={"useSynclessCollectives": "true"})
        >>> opts.config.gcl_poplar_options
        {'useSynclessCollectives': 'true'}
    """
    opts = _checked_options(opts)
    if gcl_options is not None and not isinstance(gcl_options, Mapping):
        raise TypeError(
            f"`gcl_options` must be a dictionary. Received: {gcl_options!r}."
        )
    if num_io_tiles:
        opts.config.io_tiles.num_io_tiles = num_io_tiles
    return _with_strings(opts, "gcl_poplar_options", "gcl_options", gcl_options)


# --- reports, files, verification --------------------------------------------------


def set_report_options(
    opts: IpuOptions,
    report_options: Mapping[str, Any] | None = None,
    graph_options: Mapping[str, Any] | None = None,
    execution_options: Mapping[str, Any] | None = None,
) -> IpuOptions:
    """Keep string options of reports; the first is deprecated for the other two.

    Raises:
        Exception: They are not dictionaries.

    Example:
        >>> opts = ipu.utils.create_ipu_config()
        >>> opts = set_report_options(opts, graph_options={"showVarStorage": "true"})
        >>> type(opts).__name__
        'IpuOptions'
    """
    opts = _checked_options(opts)
    graph = _dictionary("report_options", report_options)
    execution = dict(graph)
    graph.update(_dictionary("graph_options", graph_options))
    execution.update(_dictionary("execution_options", execution_options))
    opts.profiling.setdefault("graph_options", {}).update(graph)
    opts.profiling.setdefault("execution_options", {}).update(execution)
    return opts


def set_serialization_options(opts: IpuOptions, output_folder: str = "") -> IpuOptions:
    """Write compiled programs to a folder; "" does not.

    Example:
        >>> opts = set_serialization_options(ipu.utils.create_ipu_config(), "programs")
        >>> opts.config.serialization_output_folder
        'programs'
    """
    opts = _checked_options(opts)
    opts.config.serialization_output_folder = output_folder
    return opts


class KeyId:
    """Names a key of trusted computing; kept without effect.

    Args:
        key: Number of the key.
        start_id: First id.

    Example:
        >>> KeyId(1, start_id=5).start_id
        5
    """

    def __init__(self, key: int = 0, start_id: int = -1) -> None:
        self.key = key
        self.start_id = start_id


class VerificationOptions:
    """Options of trusted computing, one :class:`KeyId` each; kept without effect.

    Example:
        >>> options = VerificationOptions()
        >>> options.inputs.key
        0
    """

    def __init__(self) -> None:
        self.inputs = KeyId()
        self.outputs = KeyId()
        self.infeeds: dict[str, KeyId] = {}
        self.outfeeds: dict[str, KeyId] = {}
        self.checkpoint_in = KeyId(0, 0)
        self.checkpoint_out = KeyId(0, 0)


def set_transfer_options(
    opts: IpuOptions, use_verified_transfers: bool = False
) -> IpuOptions:
    """Keep whether transfers are verified; there is nothing to verify here.

    Example:
        >>> opts = ipu.utils.create_ipu_config()
        >>> opts = set_transfer_options(opts, use_verified_transfers=True)
    """
    opts = _checked_options(opts)
    opts.profiling["use_verified_transfers"] = bool(use_verified_transfers)
    return opts


def set_verification_options(
    opts: IpuOptions, verification_options: VerificationOptions
) -> IpuOptions:
    """Keep options of trusted computing; they have no effect.

    Example:
        >>> opts = ipu.utils.create_ipu_config()
        >>> opts = set_verification_options(opts, VerificationOptions())
    """
    opts = _checked_options(opts)
    opts.profiling["verification_options"] = verification_options
    return opts


if not TYPE_CHECKING:
    __all__ = defined(__name__)
