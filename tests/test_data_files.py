# SPDX-License-Identifier: MIT
"""Data sets kept in files, and of files: lines, pieces, columns."""

from __future__ import annotations

import gzip
import os
import threading
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu import tf
from ipu.tf import errors

Dataset = tf.data.Dataset
experimental = tf.data.experimental


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return np.asarray(value.numpy()).tolist()


def elements(dataset: Any) -> list[Any]:
    return [plain(element) for element in dataset]


def counted(size: int) -> tuple[Any, list[int]]:
    """A data set, and how many elements its generator has made."""
    made: list[int] = []
    note = made.append  # what is in a list that is captured belongs to the pipeline

    def numbers() -> Any:
        for number in range(size):
            note(number)
            yield number

    spec = tf.TensorSpec((), tf.int64)
    return Dataset.from_generator(numbers, output_signature=spec), made


STRUCTURED = Dataset.from_tensor_slices(
    {
        "x": np.arange(6, dtype=np.float16).reshape(3, 2),
        "y": (np.array([True, False, True]), ["é", "", "longer text"]),
    }
)


# --- kept -----------------------------------------------------------------------------


def test_caches_in_files(tmp_path: Any) -> None:
    data, made = counted(3)
    path = str(tmp_path / "folder" / "cache")
    kept = data.cache(path)
    partly = iter(kept)
    next(partly)
    partly.close()
    assert not os.listdir(tmp_path / "folder")
    assert elements(kept) == elements(kept.repeat(2))[3:] == [0, 1, 2]
    assert made == [0, 0, 1, 2]
    assert os.listdir(tmp_path / "folder") == ["cache"]
    for other in (counted(9)[0], Dataset.from_tensors(1.5)):
        with pytest.raises(errors.FailedPreconditionError, match="another pipeline"):
            elements(other.cache(path))


def test_caches_of_all_kinds(tmp_path: Any) -> None:
    kept = STRUCTURED.cache(str(tmp_path / "a"))
    assert elements(kept) == elements(kept) == elements(STRUCTURED)
    assert kept.element_spec == STRUCTURED.element_spec and len(kept) == 3
    batches = STRUCTURED.batch(2).cache(str(tmp_path / "b"))
    assert elements(batches) == elements(batches) == elements(STRUCTURED.batch(2))
    with pytest.raises(TypeError, match="flat_map"):
        Dataset.range(3).window(2).cache(str(tmp_path / "c"))


def test_caches_that_fail_leave_nothing(tmp_path: Any) -> None:
    def broken() -> Any:
        yield 1
        raise KeyError("here")

    spec = tf.TensorSpec((), tf.int64)
    kept = Dataset.from_generator(broken, output_signature=spec).cache(
        str(tmp_path / "cache")
    )
    for _ in range(2):
        with pytest.raises(KeyError, match="here"):
            elements(kept)
    assert not os.listdir(tmp_path)


def test_caches_in_threads(tmp_path: Any) -> None:
    kept = Dataset.range(200).cache(str(tmp_path / "cache")).prefetch(2)
    results: list[Any] = [None] * 4

    def read(at: int) -> None:
        results[at] = elements(kept)

    threads = [threading.Thread(target=read, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [list(range(200))] * 4 and os.listdir(tmp_path) == ["cache"]


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_saved_data_sets(tmp_path: Any, compression: str | None) -> None:
    STRUCTURED.save(tmp_path, compression)
    loaded = Dataset.load(str(tmp_path))
    assert loaded.element_spec == STRUCTURED.element_spec and len(loaded) == 3
    assert elements(loaded) == elements(loaded) == elements(STRUCTURED)
    Dataset.range(4).batch(3).save(tmp_path)
    again = experimental.load(tmp_path)
    assert elements(again) == [[0, 1, 2], [3]]
    assert again.element_spec == tf.TensorSpec((None,), tf.int64)


def test_damaged_files(tmp_path: Any) -> None:
    STRUCTURED.save(tmp_path)
    path = tmp_path / "elements.rows"
    whole = path.read_bytes()
    expected = elements(STRUCTURED)
    for cut in {*range(0, len(whole), 7), len(whole) - 1}:
        path.write_bytes(whole[:cut])
        with pytest.raises(errors.DataLossError, match="damaged"):
            elements(Dataset.load(tmp_path))
    random = np.random.RandomState(0)
    for _ in range(60):
        changed = bytearray(whole)
        changed[random.randint(len(whole))] ^= 1 << random.randint(8)
        path.write_bytes(changed)
        # what is damaged is seen, or changes a value
        try:
            found = elements(Dataset.load(tmp_path))
        except (errors.OpError, UnicodeDecodeError):
            continue
        assert len(found) == len(expected)
    path.write_bytes(b"something else")
    with pytest.raises(errors.DataLossError, match="does not begin"):
        elements(Dataset.load(tmp_path))
    with pytest.raises(errors.NotFoundError, match="No data set was saved"):
        Dataset.load(tmp_path / "nothing")
    with pytest.raises(ValueError, match="without an end"):
        Dataset.range(3).repeat().save(tmp_path)
    with pytest.raises(ValueError, match="compression='ZIP'"):
        Dataset.range(3).save(tmp_path, "ZIP")
    with pytest.raises(errors.AlreadyExistsError, match="is a file"):
        Dataset.range(3).save(path)


def test_snapshots(tmp_path: Any) -> None:
    data, made = counted(3)
    kept = data.snapshot(str(tmp_path))
    assert elements(kept) == elements(kept) == [0, 1, 2]
    assert elements(data.apply(experimental.snapshot(str(tmp_path)))) == [0, 1, 2]
    assert len(made) <= 4


# --- files ----------------------------------------------------------------------------


def test_compressed_lines(tmp_path: Any) -> None:
    text = b"one\r\n\ntwo"
    (tmp_path / "a.gz").write_bytes(gzip.compress(text))
    (tmp_path / "b.z").write_bytes(zlib.compress(text))
    lines = [b"one", b"", b"two"]
    path = str(tmp_path / "a.gz")
    assert elements(tf.data.TextLineDataset(path, "GZIP")) == lines
    assert elements(tf.data.TextLineDataset(str(tmp_path / "b.z"), "ZLIB")) == lines
    with pytest.raises(errors.DataLossError, match="not a ZLIB file"):
        elements(tf.data.TextLineDataset(path, "ZLIB"))
    with pytest.raises(errors.NotFoundError, match="gone"):
        elements(tf.data.TextLineDataset("gone", "GZIP"))


def test_pieces_of_one_length(tmp_path: Any) -> None:
    paths = []
    for number in range(2):
        path = tmp_path / str(number)
        values = np.arange(3, dtype=np.int32) + 10 * number
        path.write_bytes(b"HEAD" + values.tobytes() + b"END")
        paths.append(str(path))
    pieces = tf.data.FixedLengthRecordDataset(paths, 4, 4, 3)
    numbers = pieces.map(lambda piece: tf.io.decode_raw(piece, tf.int32)[0])
    assert elements(numbers) == [0, 1, 2, 10, 11, 12]
    names = Dataset.from_tensors(paths[0])
    assert len(elements(tf.data.FixedLengthRecordDataset(names, 19))) == 1
    with pytest.raises(errors.InvalidArgumentError, match="3 bytes are left"):
        elements(tf.data.FixedLengthRecordDataset(paths, 4, 4))
    with pytest.raises(ValueError, match="record_bytes=0"):
        tf.data.FixedLengthRecordDataset(paths, 0)


CSV = 'name,size,price\n"a, b",1,2.5\nc,,1e3\n"d ""e""",3,\n'


def test_lines_of_columns() -> None:
    decode = tf.io.decode_csv
    a, b = decode(["1,x", "2,NA"], [tf.int32, "none"], na_value="NA")
    assert plain(a) == [1, 2] and plain(b) == [b"x", b"none"] and a.dtype == tf.int32
    (only,) = decode("1;2;3", [[0.0]], field_delim=";", select_cols=[2])
    assert plain(only) == 3.0
    (raw, _) = decode('"a,1', [tf.string, tf.int64], use_quote_delim=False)
    assert plain(raw) == b'"a'
    for line, defaults, text in (
        ("1", [[0], [0]], "Expect 2 fields but have 1"),
        ("x", [[0]], "not a valid int32: 'x'"),
        (",1", [tf.int32, tf.int32], "Field 0 is required but missing"),
        ('"a', [tf.string], "unexpected end of data"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=text):
            decode(line, defaults)
    with pytest.raises(TypeError, match="int8"):
        decode("1", [tf.int8])


def test_files_of_columns(tmp_path: Any) -> None:
    path = tmp_path / "a.csv"
    path.write_text(CSV)
    types = [tf.string, [0], tf.constant([-1.0], tf.float64)]
    rows = experimental.CsvDataset(str(path), types, header=True)
    assert rows.element_spec[2] == tf.TensorSpec((), tf.float64)
    assert elements(rows) == [(b"a, b", 1, 2.5), (b"c", 0, 1e3), (b'd "e"', 3, -1.0)]
    some = experimental.CsvDataset(str(path), [[0]], header=True, select_cols=[1])
    assert elements(some) == [(1,), (0,), (3,)]
    others = experimental.CsvDataset(str(path), [[0]], header=True, exclude_cols=[0, 2])
    assert elements(others.map(lambda size: size + 1)) == [2, 1, 4]
    (tmp_path / "lines.csv").write_text('"two\nlines",1\n')
    quoted = experimental.CsvDataset(str(tmp_path / "lines.csv"), [tf.string, tf.int32])
    assert elements(quoted) == [(b"two\nlines", 1)]
    with pytest.raises(errors.InvalidArgumentError, match=r"a\.csv: Expect 2 fields"):
        elements(experimental.CsvDataset(str(path), [tf.string, [0]], header=True))
    with pytest.raises(ValueError, match="not both"):
        experimental.CsvDataset("a", [[0]], select_cols=[0], exclude_cols=[1])


def test_tables(tmp_path: Any) -> None:
    path = tmp_path / "a.csv"
    path.write_text(CSV)
    options: dict[str, Any] = {"num_epochs": 1, "shuffle": False}
    made = experimental.make_csv_dataset(str(path), 2, **options)
    assert {key: spec.dtype for key, spec in made.element_spec.items()} == {
        "name": tf.string,
        "size": tf.int32,
        "price": tf.float32,
    }
    first, last = elements(made)
    assert first == {"name": [b"a, b", b"c"], "size": [1, 0], "price": [2.5, 1000.0]}
    assert last["price"] == [0.0]
    labelled = experimental.make_csv_dataset(
        str(tmp_path / "*.csv"),
        3,
        label_name="size",
        select_columns=["price", "size"],
        column_defaults=[[9], [7.0]],
        **options,
    )
    assert elements(labelled) == [({"price": [2.5, 1000.0, 7.0]}, [1, 9, 3])]
    endless = experimental.make_csv_dataset(str(path), 2, shuffle_seed=1)
    assert endless.element_spec["size"].shape == (2,)
    names = [name for batch in endless.take(6) for name in plain(batch["name"])]
    assert set(names) == {b"a, b", b"c", b'd "e"'}
    big = tmp_path / "big.csv"
    big.write_text("a,b\n5000000000,x\n1,1e300\n")
    kinds = experimental.make_csv_dataset(str(big), 1, **options).element_spec
    assert [kinds[key].dtype for key in "ab"] == [tf.int64, tf.string]
    for more, text in (
        ({"label_name": "color"}, "label_name='color'"),
        ({"select_columns": ["color"]}, "'color'"),
        ({"column_names": ["a", "a", "b"]}, "duplicate"),
        ({"header": False}, "without header"),
        ({"column_defaults": [[0]]}, "an item for each column"),
    ):
        with pytest.raises(ValueError, match=text):
            experimental.make_csv_dataset(str(path), 2, **more)
    with pytest.raises(ValueError, match="No files match"):
        experimental.make_csv_dataset(str(tmp_path / "*.txt"), 2)


@pytest.mark.parametrize("text", ["{bad", "[]", "{}", '{"spec": 3}', ""])
def test_a_damaged_description_is_named(tmp_path: Path, text: str) -> None:
    tf.data.Dataset.range(3).save(str(tmp_path))
    (tmp_path / "about.json").write_text(text, encoding="utf-8")
    with pytest.raises(tf.errors.DataLossError, match=r"about\.json.*is damaged"):
        tf.data.Dataset.load(str(tmp_path))
