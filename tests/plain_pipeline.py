"""A pipeline as what it is to be equal to: stages one after another, in plain loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipu import loops, tf


def plain_pipeline(
    computational_stages: list[Callable[..., Any]],
    gradient_accumulation_count: int,
    *,
    infeed_queue: Any,
    outfeed_queue: Any,
    repeat_count: int = 1,
    optimizer_function: Callable[..., Any] | None = None,
    outfeed_mask: list[bool] | None = None,
    reduction_method: Any = None,
    accumulate_outfeed: bool = False,
    **_: Any,
) -> None:
    """``pipelining_ops.pipeline`` without stages, schedules and IPUs."""
    assert len(computational_stages) >= 2

    def forward(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        values: Any = computational_stages[0](*args, **kwargs)
        for stage in computational_stages[1:]:
            values = stage(*values)
        return list(values)

    def shown(results: list[Any]) -> list[Any]:
        mask = outfeed_mask or [False] * len(results)
        return [r for r, hidden in zip(results, mask, strict=True) if not hidden]

    def infer() -> None:
        def body(*args: Any, **kwargs: Any) -> None:
            outfeed_queue.enqueue(shown(forward(args, kwargs)))

        loops.repeat(gradient_accumulation_count, body, [], infeed_queue)

    def train() -> None:
        assert optimizer_function is not None
        outputs: list[Any] = []
        variables: list[Any] = []

        def body(count: Any, *carried: Any, **kwargs: Any) -> list[Any]:
            sums, args = carried[: len(kept)], carried[len(kept) :]
            results = forward(args, kwargs)
            output = optimizer_function(*results)
            outputs[:] = [output]
            variables[:] = list(output.variables)
            gradients = tf.gradients(output.loss, variables)
            outfeed_queue.enqueue(shown(results))
            n = float(gradient_accumulation_count)
            new = []
            for total, g in zip(sums, gradients, strict=True):
                name = reduction_method.name
                if name == "SUM":
                    new.append(total + g)
                elif name == "MEAN":
                    new.append(total + g / n)
                else:
                    now = count + 1.0
                    new.append(total * (count / now) + g * (1.0 / now))
            return [count + 1.0, *new]

        kept = plain_pipeline.variables  # type: ignore[attr-defined]
        zeros = [tf.zeros(v.shape, v.dtype) for v in kept]
        ends = loops.repeat(
            gradient_accumulation_count, body, [tf.constant(0.0), *zeros], infeed_queue
        )
        assert all(a is b for a, b in zip(kept, variables, strict=True))
        pairs = list(zip(ends[1:], variables, strict=True))
        outputs[0].opt.apply_gradients(pairs)

    assert not accumulate_outfeed
    once = infer if optimizer_function is None else train
    loops.repeat(repeat_count, once, [])
