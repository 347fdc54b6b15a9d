# SPDX-License-Identifier: MIT
"""The categories of ``IPUConfig``, one class each: names, types, defaults, meaning.

Options marked "Hardware only" never change a result of the simulation; they are
checked and kept, so that programs and saved configurations keep them.
"""

from __future__ import annotations

from typing import Any

from ipu._config.enums import (
    DeviceConnectionType,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    StochasticRoundingBehaviour,
)
from ipu._config.options import Category, Group, Option

_Options = dict[str, Any]


class Convolutions(Category):
    """Options of convolutions."""

    poplar_options = Option[_Options](
        {},
        "String options: availableMemoryProportion and partialsType change accounts. "
        "Results do not change: sums are float32 whatever partialsType says.",
    )


class DeviceConnection(Category):
    """When and to what kind of hardware devices are attached."""

    type = Option(DeviceConnectionType.ALWAYS, "When to attach.")
    version = Option(
        "",
        'Generation of the hardware: "ipu1", "ipu2", "ipu21" or "". Needed for the '
        "connection types NEVER and PRE_COMPILE.",
    )
    enable_remote_buffers = Option(
        False, "Assume remote buffers when compiling without a device."
    )


class Slices(Category):
    """Options of slicing."""

    poplar_options = Option[_Options](
        {}, "String options: availableMemoryProportion changes accounts of lookups."
    )


class _MultiReplicaDistribution(Category):
    """This process among those that run the replicas together."""

    process_index = Option(0, "Index of this process, from 0 to process_count - 1.")
    process_count = Option(
        0, "Number of processes; 0 where replicas are not distributed."
    )


class Experimental(Category):
    """Options that may change or go."""

    always_rearrange_copies_on_the_host = Option(
        False, "Rearrange data on the host. Hardware only."
    )
    enable_remote_buffer_embedding = Option(
        False, "Host embeddings use remote buffers. Hardware only."
    )
    enable_prng_stability = Option(
        False, "Keep the state of the random numbers stable."
    )
    multi_replica_distribution = Group(_MultiReplicaDistribution)


class FloatingPointBehaviour(Category):
    """Traps and rounding of floating-point numbers."""

    inv = Option(False, "End the program at an invalid operation, which gives NaN.")
    div0 = Option(False, "End the program where a number other than 0 is divided by 0.")
    oflo = Option(
        False, "End the program at a result too large for float16 or float32."
    )
    esr = Option(
        StochasticRoundingBehaviour.OFF,
        "Stochastic rounding of float16 in programs for the device: a result becomes "
        "one of its two neighbours, the nearer one the more often, so that the mean of "
        "many is right. Values that all replicas compute alike are rounded alike; "
        "REPLICA_IDENTICAL_ONLY rounds the others to nearest.",
    )
    nanoo = Option(
        False,
        "Overflow of float16 gives NaN (True) or the largest finite value (False). "
        "Where it is not assigned, overflow gives infinity.",
    )
    set_all = Option(False, "Take inv, div0, oflo and nanoo as True and esr as ON.")


class IOTiles(Category):
    """Tiles set apart for data that comes and goes."""

    num_io_tiles = Option(
        0, "Number of tiles for I/O, 0 or 32 to 192: in accounts the others compute."
    )
    place_ops_on_io_tiles = Option(
        False, "Overlap I/O with computing; needs num_io_tiles > 0."
    )
    available_memory_proportion = Option(
        0.9, "Share of the memory of each I/O tile that may be used."
    )


class IPUModel(Category):
    """The IPU that accounts are for: what a program would cost there, and whether it
    fits."""

    enforce_memory = Option(
        False,
        "Refuse a program that does not fit into the IPU's memory; else there is a "
        "warning. Of this simulation alone.",
    )
    compile_ipu_code = Option(True, "Count the size of IPU code in the memory report.")
    tiles_per_ipu = Option(
        0, "Number of tiles of an IPU in accounts; 0 for that of the version."
    )
    version = Option("ipu2", 'Generation: "ipu1", "ipu2" or "ipu21".')


class Matmuls(Category):
    """Options of matrix products."""

    clear_pass_type = Option(
        False,
        "Do not tell the planner the pass: in accounts the products of a fully "
        "connected layer then share no plan, and weights are sent to where the next "
        "one has them.",
    )
    poplar_options = Option[_Options]({}, "String options, as of convolutions.")
    same_bits_on_every_cpu = Option(
        False,
        "Give every float32 and float16 product the same bits on every class of CPU. "
        "By default those that are at least 768 in every direction are served by BLIS "
        "on some CPUs, which rounds as the CPU's class has it, and is faster there. "
        "float64, which the host alone has, is always served so. Of this simulation "
        "alone.",
    )


class _NormsExperimental(Category):
    """Options of normalisations that may change or go."""

    distributed_batch_norm_replica_group_size = Option(
        1,
        "Average the statistics of batch normalisation over this many consecutive "
        "replicas.",
    )


class Norms(Category):
    """Options of normalisations."""

    use_stable_statistics = Option(
        False,
        "Compute the variance in two passes, the mean first. Results do so in either "
        "case; accounts count the further pass.",
    )
    experimental = Group(_NormsExperimental)


class _Math(Category):
    """Simplifications of arithmetic."""

    fast = Option(False, "Allow simplifications that change rounding.")
    dot_strength = Option(True, "Turn small matrix products into cheaper operations.")


class Optimizations(Category):
    """Optimisations of compiled programs."""

    math = Group(_Math)
    prefetch_data_streams = Option(
        True,
        "Let the host fetch input ahead; with False a prefetch depth has no effect.",
    )
    combine_embedding_lookups = Option(
        False, "Fuse lookups of the same table. Hardware only."
    )
    combine_matmuls = Option(
        False, "Fuse matrix products with a common operand. Hardware only."
    )
    enable_graph_outlining = Option(
        True, "Use code again for equal parts. Hardware only."
    )
    merge_infeed_io_copies = Option(
        True, "Merge the copies of an infeed. Hardware only."
    )
    maximum_cross_replica_sum_buffer_size = Option(
        0,
        "Bytes of the cross-replica sums that are exchanged together, while the rest "
        "of a step goes on; 0 stands for 4 MiB. No result depends on it.",
    )
    maximum_reduce_scatter_buffer_size = Option(
        0, "Bytes up to which reduce-scatters are merged. Hardware only."
    )
    maximum_inter_ipu_copies_buffer_size = Option(
        0, "Bytes up to which copies between IPUs are merged. Hardware only."
    )
    maximum_send_recv_cluster_size = Option(
        0, "Bytes up to which sends and receives are merged. Hardware only."
    )
    maximum_reduce_many_buffer_size = Option(
        0, "Bytes up to which reductions are merged. Hardware only."
    )
    maximum_all_gather_buffer_size = Option(
        0, "Bytes up to which all-gathers are merged. Hardware only."
    )
    minimum_remote_tensor_size = Option(
        128, "Bytes; smaller tensors never go to remote memory."
    )
    merge_remote_buffers = Option(
        MergeRemoteBuffersBehaviour.IF_BENEFICIAL,
        "Whether remote buffers of the same shape are merged. Hardware only.",
    )
    enable_gather_simplifier = Option(True, "Simplify gathers. Hardware only.")
    triangular_solve_expander_block_size = Option(
        0, "Block size of triangular solves; 0 chooses. Hardware only."
    )
    cholesky_block_size = Option(
        0, "Block size of the Cholesky decomposition; 0 chooses. Hardware only."
    )
    enable_fast_math = Option(
        False,
        "The old name of optimizations.math.fast.",
        deprecated="use 'optimizations.math.fast' instead.",
        alias="math.fast",
    )
    enable_dynamic_slice_replacement = Option(
        True, "Replace dynamic slices by cheaper operations. Hardware only."
    )


class Pooling(Category):
    """Options of pooling."""

    poplar_options = Option[_Options]({}, "String options. Hardware only.")


class Scheduling(Category):
    """The order of instructions."""

    algorithm = Option(SchedulingAlgorithm.CHOOSE_BEST, "Which scheduler to use.")
    maximum_scheduler_lookahead_depth = Option(5, "Depth of the search of LOOK_AHEAD.")
    maximum_scheduler_search_space_size = Option(
        64, "Number of orders that LOOK_AHEAD looks at."
    )
