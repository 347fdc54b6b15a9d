# SPDX-License-Identifier: MIT
"""Spoilt input at each border: it is read, or refused with an error that says so."""

from __future__ import annotations

import contextlib
import functools
import io
import random
import re
import struct
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from test_random_control import Writer

import ipu
from ipu import _core, keras, tf
from ipu.pipelining_ops import PipelineSchedule

NUMBERS = (0, 1, -1, 7, 255, 2**15, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63)
ODD = ["0", "-1", "255", "2147483648", "4294967296", "9223372036854775807"]
PASSES = ("canonicalise", "fold", "round", "merge", "prune", "attend", "fuse", "bucket")
# what says that an input is not taken
REFUSALS: tuple[type[Exception], ...] = (
    *(ValueError, TypeError, OSError, KeyError, NotImplementedError, MemoryError),
    *(tf.errors.OpError, zipfile.BadZipFile, EOFError),
)


# --- spoiling -------------------------------------------------------------------------


def spoil_text(text: str, rng: random.Random) -> str:
    """Change a few words, lines or numbers."""
    for _ in range(rng.randint(1, 3)):
        lines = text.split("\n")
        at = rng.randrange(len(lines))
        line = lines[at]
        match rng.randrange(7):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, rng.choice(lines))
            case 2:
                lines[at], other = rng.choice(lines), lines[at]
                lines.insert(rng.randrange(len(lines) + 1), other)
            case 3 if line:  # a character
                k = rng.randrange(len(line))
                lines[at] = line[:k] + chr(rng.randrange(1, 256)) + line[k + 1 :]
            case 4 if any(c.isdigit() for c in line):
                k = rng.choice([k for k, c in enumerate(line) if c.isdigit()])
                lines[at] = line[:k] + str(rng.choice(NUMBERS)) + line[k + 1 :]
            case 5 if line:
                words = line.split(" ")
                words[rng.randrange(len(words))] = rng.choice(text.split() or [""])
                lines[at] = " ".join(words)
            case _:
                lines[at] = line[: rng.randrange(len(line) + 1)]
        text = "\n".join(lines)
    return text


def spoil_words(text: str, rng: random.Random) -> str:
    """Put other words of the text, or odd numbers, in the place of a few."""
    for _ in range(rng.randrange(1, 4)):
        part = rng.choice(list(re.finditer(r"-?\d+|\w+|[^\s\w]", text)))
        other = rng.choice(re.findall(r"\bb\d+|%\d+|-?\d+|\w+|[^\s\w]", text))
        new = rng.choice([other, rng.choice(ODD), ""])
        text = text[: part.start()] + new + text[part.end() :]
    return text


def spoil_bytes(data: bytes, rng: random.Random) -> bytes:
    """Change, cut, repeat or overwrite a few bytes."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(out) + 1)
        match rng.randrange(6):
            case 0 if at < len(out):
                out[at] ^= 1 << rng.randrange(8)
            case 1:
                del out[at : at + rng.choice([1, 2, 8, 64])]
            case 2:
                out[at:at] = out[at : at + rng.choice([1, 8, 64])]
            case 3:  # a size that lies
                number = rng.choice(NUMBERS)
                form = rng.choice(["<Q", ">Q", "<I", ">I", "<H"])
                size = struct.calcsize(form)
                out[at : at + size] = struct.pack(form, number % 256**size)
            case 4:
                out = out[:at]
            case _:
                out[at : at + 4] = rng.randbytes(4)
    return bytes(out)


# --- texts ----------------------------------------------------------------------------


def printed(text: str) -> str | None:
    """Give the graph's text as it prints, which reads alike; None: it is refused."""
    try:
        once = _core.graph_round_trip(text)
    except (tf.errors.OpError, TypeError, ValueError, MemoryError):
        return None
    assert _core.graph_round_trip(once) == once, text
    return once


def check_graph_text(seed: int) -> None:
    """Try a text that is spoilt."""
    rng = random.Random(seed)
    spoil = rng.choice([spoil_text, spoil_words])
    try_graph_text(spoil(Writer(seed, _core.Device()).text, rng))


def try_graph_text(text: str) -> None:
    """What is parsed prints alike, after all passes too, and compiles or is refused."""
    once = printed(text)
    if once is None:
        return
    try:
        for name in PASSES:
            once = _core.graph_pass(once, name)
            assert _core.graph_round_trip(once) == once, text
        _core.graph_compile(once, device=_core.Device())
    except REFUSALS:
        return


def check_schedule_text(seed: int) -> None:
    """Try a timetable that is spoilt."""
    rng = random.Random(seed)
    name = rng.choice(list(PipelineSchedule))
    try:
        known = ipu.Timetable(name, stages=rng.randint(1, 5), micro_batches=6)
    except REFUSALS:
        return
    try_schedule_text(spoil_text(known.grid, rng))


def try_schedule_text(text: str) -> None:
    """What is parsed prints alike."""
    try:
        once = ipu.Timetable.parse(text)
    except REFUSALS:
        return
    assert ipu.Timetable.parse(once.grid).grid == once.grid, text


# --- files ----------------------------------------------------------------------------


@functools.cache
def _model() -> Any:
    layers = [
        keras.Input((8, 8, 1)),
        keras.layers.Conv2D(2, 3, activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.Flatten(),
        keras.layers.Dense(3),
    ]
    model = keras.Sequential(layers)
    model.compile("adam", "mse")
    model.fit(np.ones((4, 8, 8, 1), "f4"), np.ones((4, 3), "f4"), verbose=0)
    return model


def _read_records(path: str) -> None:
    list(tf.data.TFRecordDataset(path))


def _read_examples(path: str) -> None:
    wanted = {"x": tf.io.FixedLenFeature([3], tf.float32)}
    for record in tf.data.TFRecordDataset(path):
        tf.io.parse_single_example(record, wanted)


def _write_records(path: str) -> None:
    with tf.io.TFRecordWriter(path) as writer:
        for k in range(3):
            values = tf.train.FloatList(value=[k, 1.0, 2.0])
            feature = {"x": tf.train.Feature(float_list=values)}
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())


def _write_picture(path: str) -> None:
    picture = np.arange(12 * 10 * 3, dtype=np.uint8).reshape(12, 10, 3)
    encode = tf.io.encode_png if path.endswith("png") else tf.io.encode_jpeg
    Path(path).write_bytes(encode(tf.constant(picture)).numpy())


def _read_picture(path: str) -> None:
    tf.io.decode_image(tf.io.read_file(path)).numpy()


# ending -> how such a file is written, and read
FILES: dict[str, tuple[Callable[[str], Any], Callable[[str], Any]]] = {
    "keras": (lambda p: _model().save(p), keras.models.load_model),
    "h5": (lambda p: _model().save(p), keras.models.load_model),
    "weights.h5": (
        lambda p: _model().save_weights(p),
        lambda p: _model().load_weights(p),
    ),
    "safetensors": (
        lambda p: _model().save_weights(p),
        lambda p: _model().load_weights(p),
    ),
    "tfrecord": (_write_records, _read_records),
    "example.tfrecord": (_write_records, _read_examples),
    "png": (_write_picture, _read_picture),
    "jpg": (_write_picture, _read_picture),
}


@functools.cache
def _whole(ending: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"whole.{ending}"
        FILES[ending][0](str(path))
        return path.read_bytes()


def _spoil_inside(data: bytes, rng: random.Random) -> bytes:
    """Spoil a member of an archive, which keeps its checksums."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        names = old.namelist()
        chosen = rng.choice(names)
        for name in names:
            content = old.read(name)
            if name == chosen:
                content = spoil_bytes(content, rng)
                if rng.random() < 0.1:
                    name = rng.choice(["../" + name, "/" + name, name * 2])
            new.writestr(name, content)
    return out.getvalue()


def check_file(seed: int) -> None:
    """A spoilt file is read or refused; nothing is written beside it."""
    rng = random.Random(seed)
    ending = rng.choice(list(FILES))
    whole = _whole(ending)
    is_archive = ending == "keras" and rng.random() < 0.7
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / f"spoilt.{ending}"
        path.write_bytes((_spoil_inside if is_archive else spoil_bytes)(whole, rng))
        with contextlib.suppress(*REFUSALS):
            FILES[ending][1](str(path))
        assert [one.name for one in Path(folder).iterdir()] == [path.name]
