# SPDX-License-Identifier: MIT
"""Pipelines of numbers, for the tests of their arguments and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ipu import keras, tf
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.ops.pipelining_ops import (
    OptimizerFunctionOutput,
    pipeline,
)

Stage = Callable[..., Any]


def numbers(count: int | None = None) -> IPUInfeedQueue:
    """1.0, 2.0, 3.0, ..., for ever or so many of them."""
    data = tf.data.Dataset.range(1, 10**6 if count is None else count + 1)
    queue = IPUInfeedQueue(data.map(lambda i: tf.cast(i, tf.float32)))
    assert queue.initializer is None
    return queue


def run(stages: Any, count: Any = 4, **options: Any) -> Any:
    """Run a pipeline once; what it enqueued, or None."""
    outfeed = options.pop("outfeed_queue", None)
    outfeed = IPUOutfeedQueue() if outfeed is None else outfeed
    if options.get("infeed_queue", 0) == 0:
        options["infeed_queue"] = numbers()

    @tf.function(jit_compile=True)
    def program() -> Any:
        return pipeline(
            stages,
            gradient_accumulation_count=count,
            outfeed_queue=outfeed or None,
            **options,
        )

    program()
    return outfeed.dequeue() if outfeed and outfeed.enqueued else None


TWO: list[Stage] = [lambda x: x * 10.0, lambda x: x + 1.0]


def trained(
    v: Any, optimizer: Any = None, **keywords: Any
) -> tuple[list[Stage], Callable[..., OptimizerFunctionOutput]]:
    """Two stages whose loss is x * v, and their optimizer function."""
    if optimizer is None:
        optimizer = keras.optimizers.SGD(1.0)
        keywords.setdefault("variables", [v])
    return [
        lambda x: (x, x * v),
        lambda x, y: (x, y),
    ], lambda _, y: OptimizerFunctionOutput(optimizer, y, **keywords)


def fails(kind: type[BaseException], text: str, *args: Any, **options: Any) -> None:
    """Run a pipeline; it must raise this."""
    with pytest.raises(kind, match=text):
        run(*args, **options)
