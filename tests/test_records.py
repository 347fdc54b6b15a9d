# SPDX-License-Identifier: MIT
"""Files of records, and the examples in them.

The bytes below were written by TensorFlow 2.21: `tf.io.TFRecordWriter`,
`tf.train.Example.SerializeToString`.
"""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ipu import tf
from ipu.tf import errors

pytest.importorskip("google_crc32c", reason="the extra 'records' is not installed")
pytest.importorskip("google.protobuf", reason="the extra 'records' is not installed")

Dataset = tf.data.Dataset
io = tf.io
TWO_RECORDS = bytes.fromhex(
    "0500000000000000eab2043e666972737455ff23e5000000000000000029039807d8ea82a2"
)
EXAMPLE = bytes.fromhex(
    "0a3f0a0f0a05696d61676512060a040a0201020a170a0473697a65120f1a0d0a0b03fcffffffffffffffff010a130a03766172120c120a0a080000003f00000040"
)


def example(**features) -> bytes:
    train = tf.train

    def feature(values):
        first = values[0]
        if isinstance(first, bytes):
            return train.Feature(bytes_list=train.BytesList(value=values))
        if isinstance(first, float):
            return train.Feature(float_list=train.FloatList(value=values))
        return train.Feature(int64_list=train.Int64List(value=values))

    made = {key: feature(values) for key, values in features.items()}
    return train.Example(features=train.Features(feature=made)).SerializeToString(
        deterministic=True
    )


def written(path: Path, records: list[bytes], options=None) -> str:
    with io.TFRecordWriter(str(path), options) as writer:
        for record in records:
            writer.write(record)
    return str(path)


def read(*args, **kwargs) -> list[bytes]:
    return [bytes(x) for x in tf.data.TFRecordDataset(*args, **kwargs)]


# --- files -------------------------------------------------------------------------


def test_the_format_is_tensorflows(tmp_path: Path) -> None:
    path = written(tmp_path / "a", [b"first", b""])
    assert Path(path).read_bytes() == TWO_RECORDS


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(
    records=st.lists(st.binary(max_size=300), max_size=6),
    compression=st.sampled_from(["", "ZLIB", "GZIP"]),
)
def test_what_was_written_is_read(tmp_path: Path, records, compression) -> None:
    path = written(tmp_path / "a", records, io.TFRecordOptions(compression))
    assert read(path, compression) == records


@pytest.mark.parametrize("compression", ["ZLIB", "GZIP"])
def test_no_more_is_inflated_than_is_read(tmp_path: Path, compression: str) -> None:
    records = [bytes(5000)] * 4000 + [bytes(3 << 20)]
    options = io.TFRecordOptions(compression)
    path = written(tmp_path / "a", records, options)
    assert Path(path).stat().st_size < 200_000
    iterator = iter(tf.data.TFRecordDataset(path, compression))
    tracemalloc.start()
    try:
        for _ in range(4000):
            assert len(bytes(next(iterator))) == 5000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 << 20
    assert [len(bytes(x)) for x in iterator] == [3 << 20]


def test_several_files(tmp_path: Path) -> None:
    paths = [
        written(tmp_path / n, [b"%d%d" % (i, j) for j in range(2)])
        for i, n in enumerate("ab")
    ]
    assert read(paths) == [b"00", b"01", b"10", b"11"]
    assert read(paths, num_parallel_reads=2) == [b"00", b"10", b"01", b"11"]
    names = Dataset.list_files(str(tmp_path / "*"), shuffle=False)
    assert [bytes(x).decode() for x in names] == paths
    assert read(names) == read(paths)
    mixed = names.interleave(tf.data.TFRecordDataset, cycle_length=2)
    assert [bytes(x) for x in mixed] == [b"00", b"10", b"01", b"11"]
    assert sorted(read(Dataset.list_files(paths, seed=1))) == read(paths)
    with pytest.raises(errors.InvalidArgumentError, match="No files matched"):
        Dataset.list_files(str(tmp_path / "*.png"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.data())
def test_files_that_are_cut_or_changed(tmp_path: Path, data) -> None:
    """Every cut and every changed byte is noticed, and nothing before it is lost."""
    records = [b"one", b"", b"three" * 9]
    path = tmp_path / "a"
    whole = Path(written(path, records)).read_bytes()
    ends = np.cumsum([len(record) + 16 for record in records]).tolist()
    at = data.draw(st.integers(0, len(whole) - 1))
    number = sum(end <= at for end in ends)
    if data.draw(st.booleans()):
        path.write_bytes(whole[:at])
        why = "truncated"
        if at in (0, *ends):
            assert read(str(path)) == records[:number]
            return
    else:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        why = "corrupted"
    found = []
    with pytest.raises(errors.DataLossError, match=f"record {number} of {path}: {why}"):
        for record in tf.data.TFRecordDataset(str(path)):
            found.append(bytes(record))
    assert found == records[:number]


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFoundError, match="nothing; No such file"):
        read(str(tmp_path / "nothing"))
    plain = written(tmp_path / "a", [b"x" * 20])
    for compression in ("GZIP", "ZLIB"):
        with pytest.raises(errors.DataLossError, match="cannot be decompressed"):
            read(plain, compression)
    with pytest.raises(errors.DataLossError, match="is compression_type right"):
        read(written(tmp_path / "z", [b"x" * 99], "GZIP"))
    with pytest.raises(ValueError, match="'ZIP'"):
        tf.data.TFRecordDataset(plain, "ZIP")
    with pytest.raises(TypeError, match="scalar string"):
        tf.data.TFRecordDataset(Dataset.range(2))


def test_lines(tmp_path: Path) -> None:
    path = str(tmp_path / "a.txt")
    io.write_file(path, "one\r\n\nthree")
    lines = tf.data.TextLineDataset(path).skip(1)
    assert [bytes(x) for x in lines] == [b"", b"three"]
    assert io.read_file(path).numpy() == b"one\r\n\nthree"
    with pytest.raises(errors.NotFoundError, match="nothing; No such file"):
        io.read_file(str(tmp_path / "nothing"))


# --- examples ----------------------------------------------------------------------

SPECS = {
    "image": io.FixedLenFeature([], tf.string),
    "size": io.FixedLenFeature([2], tf.int64),
    "weight": io.FixedLenFeature((), tf.float32, default_value=1.5),
    "any": io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
    "var": io.VarLenFeature(tf.float32),
}


def test_an_example_of_tensorflows() -> None:
    assert example(image=[b"\x01\x02"], size=[3, -4], var=[0.5, 2.0]) == EXAMPLE
    made = io.parse_single_example(EXAMPLE, SPECS)
    assert made["image"].numpy() == b"\x01\x02"
    assert made["size"].numpy().tolist() == [3, -4] and made["size"].dtype == tf.int64
    assert float(made["weight"]) == 1.5 and made["any"].shape == (0,)
    assert made["var"].values.numpy().tolist() == [0.5, 2.0]
    assert made["var"].indices.numpy().tolist() == [[0], [1]]
    assert tf.sparse.to_dense(made["var"]).numpy().tolist() == [0.5, 2.0]


def test_a_batch_of_examples() -> None:
    rows = [
        example(image=[b"a"], size=[1, 2], any=[7], weight=[2.0]),
        example(image=[b"b"], size=[3, 4], var=[0.5], any=[8, 9]),
    ]
    made = io.parse_example(tf.constant(rows), SPECS)
    assert made["image"].numpy().tolist() == [b"a", b"b"]
    assert made["size"].numpy().tolist() == [[1, 2], [3, 4]]
    assert made["weight"].numpy().tolist() == [2.0, 1.5]
    assert made["any"].numpy().tolist() == [[7, 0], [8, 9]]
    assert made["var"].indices.numpy().tolist() == [[1, 0]]
    dense = tf.sparse.to_dense(made["var"], default_value=-1.0)
    assert dense.numpy().tolist() == [[-1.0], [0.5]]


def test_records_become_batches(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (5, 2, 3), np.uint8)
    records = [
        example(x=[one.tobytes()], y=[i], v=[1] * i or [0])
        for i, one in enumerate(images)
    ]
    specs = {
        "x": io.FixedLenFeature([], tf.string),
        "y": io.FixedLenFeature([], tf.int64),
        "v": io.VarLenFeature(tf.int64),
    }

    def parse(record):
        parsed = io.parse_single_example(record, specs)
        image = tf.reshape(io.decode_raw(parsed["x"], tf.uint8), [2, 3])
        return tf.cast(image, tf.float32) / 255.0, tf.cast(parsed["y"], tf.int32)

    files = written(tmp_path / "a", records)
    data = tf.data.TFRecordDataset(files).map(parse, num_parallel_calls=4)
    assert data.element_spec == (
        tf.TensorSpec((2, 3), tf.float32),
        tf.TensorSpec((), tf.int32),
    )
    [(x, y)] = data.shuffle(5, seed=1).batch(5)
    order = y.numpy()
    assert sorted(order.tolist()) == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(x.numpy(), images[order].astype(np.float32) / 255)
    batched = tf.data.TFRecordDataset(files).batch(2)
    labels = batched.map(lambda texts: io.parse_example(texts, specs)["y"])
    assert [x.numpy().tolist() for x in labels] == [[0, 1], [2, 3], [4]]
    assert labels.element_spec.shape == (None,)
    varying = tf.data.TFRecordDataset(files).map(
        lambda text: tf.sparse.to_dense(io.parse_single_example(text, specs)["v"])
    )
    assert varying.element_spec.shape == (None,)
    assert [x.shape for x in varying.padded_batch(5)] == [(5, 4)]


def test_examples_that_do_not_fit() -> None:
    text = example(size=[1, 2, 3], name=[b"x"])

    def parse(**features):
        return io.parse_single_example(text, features)

    wrong = errors.InvalidArgumentError
    with pytest.raises(wrong, match=r"Key: size.*Values size: 3 but output shape"):
        parse(size=io.FixedLenFeature([2], tf.int64))
    with pytest.raises(wrong, match=r"Key: name.*Expected type: float32"):
        parse(name=io.FixedLenFeature([], tf.float32))
    with pytest.raises(wrong, match=r"Key: other.*required but could not be found"):
        parse(other=io.FixedLenFeature([], tf.float32))
    with pytest.raises(wrong, match="not a multiple of the 2"):
        parse(size=io.FixedLenSequenceFeature([2], tf.int64, True))
    with pytest.raises(wrong, match="Could not parse example input: 3 bytes"):
        io.parse_single_example(b"\xff\xff\xff", SPECS)
    with pytest.raises(ValueError, match=r"tf.cast"):
        parse(size=io.FixedLenFeature([3], tf.int32))
    with pytest.raises(ValueError, match="allow_missing"):
        parse(size=io.FixedLenSequenceFeature([], tf.int64))
    with pytest.raises(ValueError, match="must be a FixedLenFeature"):
        parse(size=tf.int64)
    with pytest.raises(ValueError, match="Missing: features"):
        parse()
    with pytest.raises(ValueError, match="Use parse_example"):
        io.parse_single_example([text], SPECS)
    with pytest.raises(wrong, match="length 3 that is not a multiple of 2"):
        io.decode_raw(b"abc", tf.int16)


@pytest.mark.parametrize(
    ("module", "program"),
    [
        ("google_crc32c", "tf.io.TFRecordWriter('/nowhere')"),
        ("google.protobuf", "tf.train.Example()"),
    ],
)
def test_missing_extras_say_what_to_install(module: str, program: str) -> None:
    code = f"import sys; sys.modules[{module!r}] = None\nfrom ipu import tf\n{program}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'ipu[records]'" in done.stderr
