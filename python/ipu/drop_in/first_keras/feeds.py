# SPDX-License-Identifier: MIT
"""What users of the first generation give: data sets, or arrays in their order."""

from __future__ import annotations

from typing import Any, NamedTuple

from ipu import tf
from ipu.keras.engine.training.data_adapter import Given, as_batches

__all__ = ["Feed", "feed_of"]

_COMPONENTS = {"fit": 2, "evaluate": 2, "predict": 1}


class Feed(NamedTuple):
    """Batches of one size.

    Attributes:
        dataset: They, as a data set.
        cardinality: How many there are, or INFINITE or UNKNOWN.
        dropped: Whether samples were left out, too few for a batch.
    """

    dataset: Any
    cardinality: int
    dropped: bool


def feed_of(
    owner: str, call: str, x: Any, y: Any, batch_size: int | None, steps: int | None
) -> Feed:
    """Make batches of what a user gave.

    Args:
        owner: The name of the model's class, for messages.
        call: ``"fit"``, ``"evaluate"`` or ``"predict"``.
        x: A data set of batches, or arrays, tensors, or lists of them.
        y: Targets beside arrays.
        batch_size: Samples in a batch of arrays; samples that fill no batch are left
            out. None makes ``steps`` batches.
        steps: What the user asked for.

    Raises:
        ValueError: A batch size beside a data set, or none beside arrays; a size that
            is not known; or an element of another number of components.
    """
    is_dataset = hasattr(x, "element_spec") and hasattr(x, "cardinality")
    if is_dataset and batch_size is not None:
        raise ValueError(
            f"Do not specify `batch_size` in {owner}.{call}(). Use the "
            "Dataset.batch() method to set the batch size when the data are a data "
            f"set. Received: batch_size={batch_size}."
        )
    if not is_dataset and batch_size is None and steps is None:
        raise ValueError(
            "`batch_size` or `steps` is required for `Tensor` or `NumPy` input data. "
            f"Received neither in {owner}.{call}()."
        )
    given = Given(x, y, batch_size=batch_size)
    batches = as_batches(given, steps, call if is_dataset else None)
    feed = Feed(batches.dataset, batches.cardinality, False)
    if batches.tail:
        whole = batches.cardinality - 1
        feed = Feed(batches.dataset.take(whole), whole, True)
    elif not is_dataset and batch_size is not None:
        rows = tf.nest.flatten(batches.dataset.element_spec)[0].shape[0]
        if rows < batch_size:
            feed = Feed(batches.dataset.take(0), 0, True)
    _check_components(feed.dataset.element_spec, call)
    return feed


def _check_components(spec: Any, call: str) -> None:
    wanted = _COMPONENTS[call]
    count = len(spec) if isinstance(spec, tuple) else 1
    if count == wanted:
        return
    form = "(inputs, targets)" if wanted == 2 else "(inputs,)"
    raise ValueError(
        f"{call}() requires a dataset containing a tuple of {wanted} elements. "
        f"Received: {count}. Let its elements be {form}; several inputs are one "
        "element, a tuple of its own."
    )
