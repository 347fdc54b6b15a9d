# SPDX-License-Identifier: MIT
"""`ipu.dataset_benchmark`: the JSON, the errors, what is read."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ipu import dataset_benchmark, tf
from ipu.ipu_infeed_queue import IPUInfeedQueue

FIELDS = [
    "bandwidth",
    "elements_per_second",
    "elements_processed",
    "time_elapsed",
    "total_bytes_processed",
]


def pairs(count: int) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(
        (np.zeros((count, 10), np.float32), np.zeros(count, np.int32))
    )


@pytest.mark.parametrize("do_memcpy", [True, False])
@pytest.mark.parametrize("batch", ["full", "open"])
def test_the_json(do_memcpy, batch):
    dataset = pairs(64).batch(8, drop_remainder=batch == "full").repeat()
    result = dataset_benchmark.dataset_benchmark(
        dataset, 10, 512, print_stats=False, do_memcpy=do_memcpy
    )
    assert result.shape == (1,) and len(result) == 1
    assert result.dtype == tf.string
    text = result.numpy()[0]
    found = json.loads(result[0])
    assert found == json.loads(text)
    assert list(found) == ["epochs"] and len(found["epochs"]) == 10
    for epoch in found["epochs"]:
        assert sorted(epoch) == FIELDS
        assert all(type(value) is float for value in epoch.values())
        seconds = epoch["time_elapsed"]
        assert epoch["elements_processed"] == 512
        assert epoch["total_bytes_processed"] == 512 * 8 * (10 * 4 + 4)
        assert epoch["elements_per_second"] == pytest.approx(512 / seconds)
        assert epoch["bandwidth"] == pytest.approx(512 * 8 * 44 / 1e9 / seconds)


def test_one_iterator_is_read_for_all_epochs():
    log = []

    def generate():
        for i in range(1000):
            log.append(i)
            yield i

    dataset = tf.data.Dataset.from_generator(
        generate, output_signature=tf.TensorSpec((), tf.int64)
    )
    dataset_benchmark.dataset_benchmark(dataset, 3, 7, apply_options=False)
    assert log == list(range(21))


def test_an_infeed():
    infeed = IPUInfeedQueue(pairs(10).repeat())
    result = dataset_benchmark.infeed_benchmark(infeed, 2, 5, True, False)
    assert len(json.loads(result[0])["epochs"]) == 2


def test_errors():
    run = dataset_benchmark.dataset_benchmark
    dataset = pairs(10)
    with pytest.raises(tf.errors.OutOfRangeError):
        run(dataset, 3, 4)
    with pytest.raises(ValueError, match=r"`number_of_epochs` to be at least 1"):
        run(dataset, 0, 4)
    with pytest.raises(ValueError, match=r"`elements_per_epochs` to be at least 1"):
        run(dataset, 1, 0)
    with pytest.raises(TypeError, match=r"to be of type `tf\.data\.Dataset`, but got"):
        run([1, 2], 1, 1)
    with pytest.raises(TypeError, match="IPUInfeedQueue"):
        dataset_benchmark.infeed_benchmark(dataset, 1, 1)
    with pytest.raises(TypeError, match="unexpected keyword"):
        run(dataset, 1, 1, memcpy=True)
    empty = tf.data.Dataset.from_tensors(np.zeros((3, 0), np.float32))
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="Detected a tensor in the dataset with a dimension of size 0",
    ):
        run(empty, 1, 1)


def test_what_is_logged(caplog):
    with caplog.at_level("INFO", logger="ipu"):
        dataset_benchmark.dataset_benchmark(pairs(4), 2, 2)
    text = caplog.text
    assert text.count("elements/second.") == 2 and text.count("GB/s.") == 2
    assert "Dataset iterator completed epoch 0." in text
    assert "Dataset iterator completed epoch 1." in text
