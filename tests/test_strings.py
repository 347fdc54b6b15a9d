# SPDX-License-Identifier: MIT
"""`tf.strings`, ragged tensors, `tf.lookup`: the values that TensorFlow gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ipu import tf
from ipu.tf import errors
from ipu.tf._string_ops.hashes import fingerprint64, murmur64, siphash24
from ipu.tf._string_ops.host_only import HostOnlyError

Dataset = tf.data.Dataset


def plain(value: Any) -> Any:
    """Nested lists of what a tensor, dense or ragged, holds."""
    made = value.to_list() if hasattr(value, "to_list") else value.numpy()
    return made.tolist() if hasattr(made, "tolist") else made


# of strings of so many bytes 0, 1, 2, ...: one for each way through FarmHash
HASHES = {
    0: (254201053263, 890861768996, 142163811899),
    1: (1022032956244, 877926045956, 278939356486),
    3: (149953422490, 279608037698, 912454193065),
    4: (590714824000, 775481061571, 767204533627),
    8: (970275240856, 1071956570738, 733459831257),
    17: (1069212835612, 1067157790676, 643907628823),
    32: (659666296649, 821892109726, 496247647169),
    33: (832342151758, 38368169695, 652161979660),
    64: (804565994571, 757187319766, 484851493076),
    65: (190026694078, 218945466420, 95088081172),
    128: (643992018387, 561359425273, 10277613287),
    129: (498503583806, 437203161854, 918085933889),
    300: (409064299043, 47548108387, 1030974134755),
}


@pytest.mark.parametrize("size", HASHES)
def test_hashes(size: int) -> None:
    text = bytes(byte % 256 for byte in range(size))
    made = (fingerprint64(text), siphash24(text, (7, 8)), murmur64(text))
    assert tuple(one % 2**40 for one in made) == HASHES[size]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("split(['a b  c', '', ' d'])", [[b"a", b"b", b"c"], [], [b"d"]]),
        ("split([['a b'], ['']])", [[[b"a", b"b"]], [[]]]),
        ("split(['a,,b', '', ','], ',')", [[b"a", b"", b"b"], [b""], [b"", b""]]),
        ("split('a,b,c', ',', 1)", [b"a", b"b,c"]),
        ("bytes_split(['ab', ''])", [[b"a", b"b"], []]),
        ("unicode_split(['aé', ''], 'UTF-8')", [[b"a", "é".encode()], []]),
        ("unicode_decode(['aé', b'\\xffx'], 'UTF-8')", [[97, 233], [65533, 120]]),
        ("unicode_decode([b'\\xffx'], 'UTF-8', errors='ignore')", [[120]]),
        ("unicode_encode([[72, 105], [233, 26085]], 'UTF-8')", [b"Hi", "é日".encode()]),
        ("unicode_encode([72, 0x110000], 'UTF-8')", "H\ufffd".encode()),
        ("unicode_transcode('aé', 'UTF-8', 'UTF-16-BE')", b"\0a\0\xe9"),
        ("substr(['Hello', 'World!'], -4, 3)", [b"ell", b"rld"]),
        ("substr(['Hello', 'World!'], [1, 2], [3, 1])", [b"ell", b"r"]),
        ("substr('Hello', 5, 2)", b""),
        ("substr('日本語', -1, 1, unit='UTF8_CHAR')", "語".encode()),
        ("length(['日本', ''], unit='UTF8_CHAR')", [2, 0]),
        ("upper('straße', encoding='utf-8')", b"STRASSE"),
        ("reduce_join([['a', 'b'], ['c', 'd']])", b"abcd"),
        ("reduce_join([['a', 'b'], ['c', 'd']], [0, 1], separator='+')", b"a+c+b+d"),
        ("reduce_join([['a', 'b'], ['c', 'd']], 1, True)", [[b"ab"], [b"cd"]]),
        ("ngrams(['a', 'b', 'c'], [1, 2])", [b"a", b"b", b"c", b"a b", b"b c"]),
        (
            "ngrams(['a', 'b'], 3, pad_values='-', padding_width=1)",
            [b"- a b", b"a b -"],
        ),
        ("ngrams(['a', 'b'], 3, preserve_short_sequences=True)", [b"a b"]),
        ("ngrams(split(['a b c', 'd']), 2)", [[b"a b", b"b c"], []]),
        ("format('x {}', tf.range(8))", b"x [0 1 2 ... 5 6 7]"),
        ("format('{} {}', ([True, False], 1e-7))", b"[1 0] 1e-07"),
        ("format('{}', tf.constant(['a', 'b']))", b'["a" "b"]'),
        ("as_string([1.5, -2.25], precision=1)", [b"1.5", b"-2.2"]),
        ("as_string([1234567.5], scientific=True)", [b"1.234568e+06"]),
        ("as_string([1, -20], width=5, fill='0')", [b"00001", b"-0020"]),
        ("as_string([True])", [b"true"]),
        (r"regex_replace('a1b22', '([a-z])([0-9])', r'\2\1')", b"1a2b2"),
        (r"regex_replace('a1b22', '[0-9]+', r'<\0>')", b"a<1>b<22>"),
        ("regex_replace('Hi, you! é', '[[:punct:]]', '')", "Hi you é".encode()),
        ("regex_replace(b'\\xffab', 'a', 'x')", b"\xffxb"),
        ("to_hash_bucket_fast(['Hello', 'TensorFlow'], 3)", [0, 2]),
        ("to_hash_bucket_strong(['Hello', 'TF'], 3, [1, 2])", [2, 0]),
        ("to_hash_bucket(['Hello', 'TensorFlow', '2.x'], 3)", [2, 0, 1]),
    ],
)
def test_values(call: str, expected: Any) -> None:
    names = {name: getattr(tf.strings, name) for name in tf.strings.__all__}
    assert plain(eval(call, {"tf": tf, **names})) == expected


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        ("substr('Hello', 9, 3)", errors.InvalidArgumentError, "pos 9 out of range"),
        ("length('a', unit='WORD')", ValueError, "Received: unit='WORD'"),
        ("regex_replace('a', '(', '')", errors.InvalidArgumentError, "Invalid pattern"),
        ("ngrams(['a'], 0)", ValueError, "greater than 0"),
        ("format('{} {}', tf.constant(1))", ValueError, "does not match"),
        ("unicode_decode('a', 'UTF-9')", ValueError, "no encoding 'UTF-9'"),
        (
            "unicode_decode(b'\\xff', 'UTF-8', errors='strict')",
            errors.InvalidArgumentError,
            "Invalid formatting",
        ),
        ("as_string(1, precision=2)", ValueError, "precision is for floats"),
        ("to_hash_bucket_fast('a', 0)", errors.InvalidArgumentError, "at least 1"),
        ("to_hash_bucket_strong('a', 3, [1])", ValueError, "must have 2 elements"),
    ],
)
def test_mistakes(call: str, error: type[Exception], text: str) -> None:
    names = {name: getattr(tf.strings, name) for name in tf.strings.__all__}
    with pytest.raises(error, match=text):
        eval(call, {"tf": tf, **names})


def test_ragged_tensors() -> None:
    rows = tf.ragged.constant([[1, 2, 3], [], [4]])
    assert rows.shape == (3, None) and rows.dtype == tf.int32 and len(rows) == 3
    assert plain(rows.row_lengths()) == [3, 0, 1]
    assert plain(rows.row_splits) == [0, 3, 3, 4]
    assert plain(rows.bounding_shape()) == [3, 3]
    assert plain(rows[0]) == [1, 2, 3] and plain(rows[-1]) == [4]
    assert plain(rows[1:]) == [[], [4]] and int(rows[0, 1]) == 2
    assert plain(rows.to_tensor(-1)) == [[1, 2, 3], [-1] * 3, [4, -1, -1]]
    assert plain(rows.to_tensor(shape=(None, 2))) == [[1, 2], [0, 0], [4, 0]]
    assert plain(rows.to_tensor(shape=(None, 4)))[2] == [4, 0, 0, 0]
    deep = tf.ragged.constant([[[1], [2, 3]], [[4]]])
    assert deep.ragged_rank == 2 and plain(deep.flat_values) == [1, 2, 3, 4]
    assert plain(deep.to_tensor()) == [[[1, 0], [2, 3]], [[4, 0], [0, 0]]]
    assert plain(deep[0]) == [[1], [2, 3]] and plain(deep[::-1]) == [
        [[4]],
        [[1], [2, 3]],
    ]
    assert isinstance(rows, tf.RaggedTensor)
    with pytest.raises(errors.InvalidArgumentError, match="never fall"):
        tf.RaggedTensor.from_row_splits([1, 2], [0, 2, 1])


def test_ragged_rows_in_data_sets() -> None:
    rows = Dataset.from_tensor_slices((tf.ragged.constant([[1, 2], [3]]), ["a", "b"]))
    assert rows.element_spec[0].shape == (None,) and len(rows) == 2
    ((numbers, names),) = rows.padded_batch(2)
    assert plain(numbers) == [[1, 2], [3, 0]] and plain(names) == [b"a", b"b"]
    words = Dataset.from_tensor_slices(tf.strings.split(["a b", "c"]))
    assert [plain(row) for row in words] == [[b"a", b"b"], [b"c"]]


def test_maps_that_need_the_host() -> None:
    numbers = Dataset.range(4)
    texts = numbers.map(tf.strings.as_string)
    assert [x.numpy() for x in texts] == [b"0", b"1", b"2", b"3"]
    assert texts.element_spec == tf.TensorSpec((), tf.string)
    named = numbers.map(lambda x: (x, "n"))
    assert [(int(x), y.numpy()) for x, y in named][3] == (3, b"n")
    called = numbers.map(lambda x: tf.py_function(lambda v: v * v, [x], tf.int64))
    assert [int(x) for x in called] == [0, 1, 4, 9]
    halves = numbers.map(lambda x: tf.numpy_function(lambda v: v / 2, [x], tf.float64))
    assert [float(x) for x in halves] == [0.0, 0.5, 1.0, 1.5]
    odd = numbers.filter(
        lambda x: tf.strings.regex_full_match(tf.strings.as_string(x), "[13]")
    )
    assert [int(x) for x in odd] == [1, 3]


def test_what_is_printed_in_a_map(capsys: pytest.CaptureFixture[str]) -> None:
    def shown(x: Any) -> Any:
        tf.print("x =", x)
        return x

    made = Dataset.range(2).map(shown)
    capsys.readouterr()
    assert [int(x) for x in made] == [0, 1]
    assert capsys.readouterr().err == "x = 0\nx = 1\n"


def test_traced_functions_have_no_strings() -> None:
    @tf.function
    def texts(x: Any) -> Any:
        return tf.strings.as_string(x)

    with pytest.raises(
        HostOnlyError, match=r"tf\.strings\.as_string works on the host"
    ):
        texts(tf.constant([1.0]))


# --- tables ---------------------------------------------------------------------------


def rows(keys: Any, values: Any, **kwargs: Any) -> Any:
    return tf.lookup.KeyValueTensorInitializer(keys, values, **kwargs)


def test_static_tables() -> None:
    table = tf.lookup.StaticHashTable(rows(["a", "b"], [1, 2]), -1)
    assert table.key_dtype == tf.string and table.value_dtype == tf.int32
    assert plain(table.lookup([["b", "x"], ["a", "a"]])) == [[2, -1], [1, 1]]
    assert plain(table[tf.constant("b")]) == 2 and int(table.size()) == 2
    assert plain(table.lookup(tf.strings.split(["a b", "x"]))) == [[1, 2], [-1]]
    names = tf.lookup.StaticHashTable(
        rows([1, 2], ["one", "two"], key_dtype=tf.int64), "?"
    )
    assert plain(names.lookup(np.array([2, 5]))) == [b"two", b"?"]
    assert [plain(part) for part in names.export()] == [[1, 2], [b"one", b"two"]]
    made = Dataset.from_tensor_slices(["b", "z"]).map(table.lookup)
    assert [int(x) for x in made] == [2, -1]
    back = Dataset.range(3).map(names.lookup)
    assert [x.numpy() for x in back] == [b"?", b"one", b"two"]
    with pytest.raises(TypeError, match=r"`keys` must be string\. Received: int32"):
        table.lookup(tf.constant([1]))
    with pytest.raises(TypeError, match=r"`keys` must be int64\. Received: string"):
        names.lookup(["a"])
    with pytest.raises(
        errors.FailedPreconditionError, match="different value for same"
    ):
        tf.lookup.StaticHashTable(rows(["a", "a"], [1, 2]), -1)
    with pytest.raises(ValueError, match="one value for each key"):
        rows(["a"], [1, 2])


def test_vocabulary_tables() -> None:
    known = rows(["emerson", "lake", "palmer"], np.arange(3))
    table = tf.lookup.StaticVocabularyTable(known, 5)
    words = tf.constant(["emerson", "lake", "palmer", "king", "crimson"])
    assert plain(table.lookup(words)) == [0, 1, 2, 6, 7]
    assert int(table.size()) == 8
    numbers = tf.lookup.StaticVocabularyTable(None, 7, lookup_key_dtype=tf.int64)
    assert plain(numbers[np.array([0, 1, 12345])]) == [
        fingerprint64(text) % 7 for text in (b"0", b"1", b"12345")
    ]
    with pytest.raises(ValueError, match="must be > 0"):
        tf.lookup.StaticVocabularyTable(known, 0)
    with pytest.raises(TypeError, match="must be int64"):
        tf.lookup.StaticVocabularyTable(rows(["a"], ["b"]), 1)


def test_tables_of_files(tmp_path: Any) -> None:
    path = tmp_path / "words.txt"
    path.write_text("cat\t7\r\ndog\t8\n")
    index = tf.lookup.TextFileIndex
    columns = tf.lookup.TextFileInitializer(path, tf.string, 0, tf.int64, 1)
    assert plain(tf.lookup.StaticHashTable(columns, -1)[["dog", "x"]]) == [8, -1]
    lines = tf.lookup.TextFileInitializer(
        str(path), tf.int64, index.LINE_NUMBER, tf.string, index.WHOLE_LINE
    )
    table = tf.lookup.StaticHashTable(lines, "?")
    assert plain(table[np.array([1, 2])]) == [b"dog\t8", b"?"]
    bad = tf.lookup.TextFileInitializer(path, tf.string, 1, tf.int64, 0)
    with pytest.raises(errors.InvalidArgumentError, match="b'cat' in line 0"):
        tf.lookup.StaticHashTable(bad, -1)
    short = tf.lookup.TextFileInitializer(path, tf.string, 0, tf.int64, 2)
    with pytest.raises(errors.InvalidArgumentError, match="expected at least 3, got 2"):
        tf.lookup.StaticHashTable(short, -1)
    with pytest.raises(ValueError, match="whole lines must be string"):
        tf.lookup.TextFileInitializer(path, tf.int64, -2, tf.int64, -1)
    gone = tf.lookup.TextFileInitializer("/no/file", tf.string, -2, tf.int64, -1)
    with pytest.raises(errors.NotFoundError, match="/no/file"):
        tf.lookup.StaticHashTable(gone, -1)


def test_tables_that_change() -> None:
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, [0.0, 0.0])
    table.insert(["a", "b"], [[1.0, 2.0], [3.0, 4.0]])
    table.insert("a", [5.0, 6.0])
    table.remove(["b", "c"])
    assert plain(table.lookup(["a", "b"])) == [[5.0, 6.0], [0.0, 0.0]]
    assert plain(table.export()[0]) == [b"a"] and int(table.size()) == 1
    with pytest.raises(errors.InvalidArgumentError, match="Expected shape"):
        table.insert(["a"], [1.0])
    dense = tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, 0, -1)
    dense.insert([7], [1])
    assert plain(dense[np.array([7, 8])]) == [1, -1]
    with pytest.raises(errors.InvalidArgumentError, match="Using the empty_key"):
        dense.insert([0], [1])
