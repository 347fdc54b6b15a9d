# SPDX-License-Identifier: MIT
"""The rest of the first generation's setters: arithmetic, compiling, reports.

``ipu.utils`` offers them. As those of ``_config.legacy`` they change the options object
that they are given and return it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ipu._config.enums import MergeRemoteBuffersBehaviour, StochasticRoundingBehaviour
from ipu._config.legacy import IpuOptions, _checked_options
from ipu._text.faces import defined

_MERGING = {
    True: MergeRemoteBuffersBehaviour.MERGE,
    False: MergeRemoteBuffersBehaviour.NO_MERGING,
    None: MergeRemoteBuffersBehaviour.IF_BENEFICIAL,
}


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
        ValueError: ``merge_remote_buffers`` is none of True, False, None.

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


def set_compilation_options(
    opts: IpuOptions, compilation_options: Mapping[str, Any] | None = None
) -> IpuOptions:
    """Add string options of the compiler; repeated calls add up.

    Raises:
        Exception: They are no dictionary.

    Example:
        >>> opts = ipu.utils.create_ipu_config()
        >>> opts = set_compilation_options(opts, {"debug.x": True})
        >>> opts.config.compilation_poplar_options
        {'debug.x': 'True'}
    """
    opts = _checked_options(opts)
    added = _dictionary("compilation_options", compilation_options)
    opts.config.compilation_poplar_options.update(added)
    return opts


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
    opts = _checked_options(opts)
    added = _dictionary("convolution_options", convolution_options)
    opts.config.convolutions.poplar_options.update(added)
    return opts


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
    opts = _checked_options(opts)
    added = _dictionary("matmul_options", matmul_options)
    opts.config.matmuls.poplar_options.update(added)
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
    opts = _checked_options(opts)
    added = _dictionary("pooling_options", pooling_options)
    opts.config.pooling.poplar_options.update(added)
    return opts


def set_gcl_options(
    opts: IpuOptions,
    num_io_tiles: int = 0,
    gcl_options: Mapping[str, Any] | None = None,
) -> IpuOptions:
    """Add string options of collectives.

    Raises:
        TypeError: They are no dictionary.

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
    opts.config.gcl_poplar_options.update(_dictionary("gcl_options", gcl_options))
    return opts


# --- reports, files, verification --------------------------------------------------


def set_report_options(
    opts: IpuOptions,
    report_options: Mapping[str, Any] | None = None,
    graph_options: Mapping[str, Any] | None = None,
    execution_options: Mapping[str, Any] | None = None,
) -> IpuOptions:
    """Keep string options of reports; the first is deprecated for the other two.

    Raises:
        Exception: They are no dictionaries.

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
