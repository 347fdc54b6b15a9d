# SPDX-License-Identifier: MIT
"""`ipu.keras.datasets`: the order of places, checksums, damaged files, no network."""

import gzip
import hashlib
import http.server
import io
import multiprocessing
import os
import struct
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from ipu.keras.datasets import _cache, _download, fashion_mnist, mnist


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    """No network, an empty cache, no Debian package."""

    def fetch(url):
        raise OSError("no network in tests")

    monkeypatch.setattr(_download, "fetch", fetch)
    monkeypatch.setattr(_cache, "_DEBIAN_FOLDER", tmp_path / "debian")
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    return tmp_path


def images(seed=0):
    random = np.random.default_rng(seed)
    return (
        (
            random.integers(0, 256, (12, 28, 28), np.uint8),
            random.integers(0, 10, 12, np.uint8),
        ),
        (
            random.integers(0, 256, (5, 28, 28), np.uint8),
            random.integers(0, 10, 5, np.uint8),
        ),
    )


def npz_bytes(arrays):
    (x_train, y_train), (x_test, y_test) = arrays
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test
    )
    return buffer.getvalue()


def idx_bytes(array):
    head = struct.pack(f">I{array.ndim}I", 0x800 + array.ndim, *array.shape)
    return head + array.tobytes()


def idx_files(arrays, zipped=True):
    flat = [array for split in arrays for array in split]
    suffix = ".gz" if zipped else ""
    pack = gzip.compress if zipped else bytes
    return {
        name + suffix: pack(idx_bytes(array))
        for name, array in zip(_cache._IDX_NAMES, flat, strict=True)
    }


def write(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def assert_same(got, expected):
    for got_split, expected_split in zip(got, expected, strict=True):
        for one, other in zip(got_split, expected_split, strict=True):
            assert one.dtype == np.uint8
            np.testing.assert_array_equal(one, other)


def official(monkeypatch, name, files):
    """Declare these files the official ones of a data set."""
    data_set = _cache._DATA_SETS[name]
    digests = {
        file: hashlib.sha256(data_set.unpack(content)).hexdigest()
        for file, content in files.items()
    }
    monkeypatch.setitem(_cache._DATA_SETS, name, replace(data_set, files=digests))


def serve(monkeypatch, files):
    """Answer downloads out of a dictionary; returns the list of what was asked."""
    asked = []

    def fetch(url):
        name = url.rpartition("/")[2]
        asked.append(name)
        return files[name]

    monkeypatch.setattr(_download, "fetch", fetch)
    return asked


def test_the_cache_is_used_as_it_is_with_a_warning(offline, caplog):
    write(offline / "keras/datasets", {"mnist.npz": npz_bytes(images())})
    assert_same(mnist.load_data(), images())
    assert "its checksum is not that of the official MNIST file" in caplog.text


def test_the_official_file_gives_no_warning(offline, caplog, monkeypatch):
    files = {"mnist.npz": npz_bytes(images())}
    official(monkeypatch, "mnist", files)
    write(offline / "keras/datasets", files)
    loaded = _cache.load("mnist")
    assert_same(loaded.arrays, images())
    assert loaded.source == f"MNIST from {offline / 'keras/datasets/mnist.npz'}"
    assert not caplog.records


def test_the_path_of_the_file(offline):
    content = npz_bytes(images(3))
    write(offline / "keras/datasets", {"mine.npz": content})
    write(offline / "elsewhere", {"m.npz": content})
    assert_same(mnist.load_data("mine.npz"), images(3))
    assert_same(mnist.load_data(str(offline / "elsewhere/m.npz")), images(3))


def test_the_default_cache_is_in_the_home_folder(offline, monkeypatch):
    monkeypatch.delenv("KERAS_HOME")
    monkeypatch.setenv("HOME", str(offline / "home"))
    assert _download.cache_folder() == offline / "home/.keras/datasets"


def test_arrays_can_be_written_to(offline):
    write(offline / "keras/datasets/fashion-mnist", idx_files(images()))
    (x_train, _), _ = fashion_mnist.load_data()
    x_train[0] = 1


def test_fashion_from_the_cache_with_a_warning(offline, caplog):
    write(offline / "keras/datasets/fashion-mnist", idx_files(images()))
    assert_same(fashion_mnist.load_data(), images())
    assert "official Fashion-MNIST file" in caplog.text


def test_fashion_from_debian_when_offline(offline, caplog):
    write(offline / "debian", idx_files(images()))
    loaded = _cache.load("fashion-mnist")
    assert_same(loaded.arrays, images())
    assert "Debian's dataset-fashion-mnist" in loaded.source
    assert not caplog.records


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_download_into_the_cache(offline, monkeypatch, name):
    both = {"mnist.npz": npz_bytes(images())} | idx_files(images())
    wanted = {file: both[file] for file in _cache._DATA_SETS[name].files}
    official(monkeypatch, name, wanted)
    asked = serve(monkeypatch, wanted)
    loaded = _cache.load(name)
    assert_same(loaded.arrays, images())
    assert "downloaded from https://storage.googleapis.com" in loaded.source
    assert asked == list(wanted)
    assert_same(_cache.load(name).arrays, images())
    assert asked == list(wanted)
    left = [path for path in (offline / "keras").rglob("*") if path.is_file()]
    assert sorted(path.name for path in left) == sorted(wanted)


def test_only_missing_files_are_downloaded(offline, monkeypatch):
    files = idx_files(images())
    official(monkeypatch, "fashion-mnist", files)
    first, *rest = files
    write(offline / "keras/datasets/fashion-mnist", {first: files[first]})
    asked = serve(monkeypatch, files)
    assert_same(fashion_mnist.load_data(), images())
    assert asked == rest


@pytest.mark.parametrize("content", [b"<html>log in</html>", npz_bytes(images(9))])
def test_a_download_with_another_checksum_is_not_kept(offline, monkeypatch, content):
    serve(monkeypatch, {"mnist.npz": content})
    with pytest.raises(FileNotFoundError, match="came with the checksum"):
        mnist.load_data()
    assert not list((offline / "keras").rglob("*.npz"))


def test_a_damaged_download_of_fashion_falls_to_debian(offline, monkeypatch):
    write(offline / "debian", idx_files(images()))
    files = dict.fromkeys(_cache._DATA_SETS["fashion-mnist"].files, b"\x1f\x8bno")
    serve(monkeypatch, files)
    assert_same(fashion_mnist.load_data(), images())


def test_a_cache_that_cannot_be_written(offline, monkeypatch, caplog):
    files = {"mnist.npz": npz_bytes(images())}
    official(monkeypatch, "mnist", files)
    serve(monkeypatch, files)
    (offline / "keras").write_text("a file, not a folder")
    assert_same(mnist.load_data(), images())
    assert "Could not keep" in caplog.text


def test_offline_without_files_names_the_ways_out():
    with pytest.raises(FileNotFoundError) as error:
        mnist.load_data()
    for way in ("no network in tests", "mnist.npz", "KERAS_HOME", "fashion_mnist"):
        assert way in str(error.value)
    with pytest.raises(FileNotFoundError) as error:
        fashion_mnist.load_data()
    for way in ("no network", "KERAS_HOME", "apt-get install dataset-fashion-mnist"):
        assert way in str(error.value)


def without_key():
    buffer = io.BytesIO()
    np.savez(buffer, x_train=np.zeros(3))
    return buffer.getvalue()


def unpaired():
    (x_train, y_train), test = images()
    return npz_bytes(((x_train, y_train[:-1]), test))


def single_array():
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        npz_bytes(images())[:2000],
        npz_bytes(images())[:-1],
        b"",
        b"not an archive",
        without_key(),
        unpaired(),
        single_array(),
    ],
    ids=["half", "short", "empty", "text", "without_key", "unpaired", "single"],
)
def test_a_damaged_npz_file(offline, content):
    write(offline / "keras/datasets", {"mnist.npz": content})
    with pytest.raises(ValueError, match=r"mnist\.npz is truncated or does not hold"):
        mnist.load_data()


def test_damaged_compressed_values(offline):
    content = bytearray(npz_bytes(images()))
    for at in range(400, 600):
        content[at] ^= 0xFF
    write(offline / "keras/datasets", {"mnist.npz": bytes(content)})
    with pytest.raises(ValueError, match="is truncated or does not hold MNIST"):
        mnist.load_data()


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(idx_bytes(images()[0][0]))[:500],
        gzip.compress(idx_bytes(images()[0][0])[:500]),
        gzip.compress(b"\x00\x00\x08"),
        gzip.compress(b"\x00\x00\x08\x03\x00"),
        gzip.compress(b"text"),
        b"text",
        b"",
    ],
    ids=["half", "short", "magic", "head", "zipped_text", "text", "empty"],
)
def test_a_damaged_idx_file(offline, content):
    files = idx_files(images())
    files["train-images-idx3-ubyte.gz"] = content
    write(offline / "keras/datasets/fashion-mnist", files)
    with pytest.raises(ValueError, match="is truncated or does not hold Fashion-MNIST"):
        fashion_mnist.load_data()


@pytest.mark.parametrize("form", ["npz", "file", "gz", "plain"])
def test_a_folder_of_ones_own(offline, form):
    folder = offline / "own"
    if form in ("npz", "file"):
        write(folder, {"mnist.npz": npz_bytes(images())})
    else:
        write(folder, idx_files(images(), zipped=form == "gz"))
    where = folder / "mnist.npz" if form == "file" else folder
    assert_same(_cache.load("mnist", where).arrays, images())
    named = _cache.load_mnist_or_fashion(str(where))
    assert_same(named.arrays, images())
    assert named.name == ("mnist" if form == "file" else "own")
    assert str(where) in named.source


def test_a_folder_of_ones_own_is_the_only_place(offline):
    write(offline / "keras/datasets", {"mnist.npz": npz_bytes(images())})
    (offline / "empty").mkdir()
    for where in ("empty", "missing"):
        for load in (lambda at: _cache.load("mnist", at), _cache.load_mnist_or_fashion):
            with pytest.raises(FileNotFoundError, match="There is no data set in"):
                load(offline / where)


def test_known_labels_give_the_name(offline, monkeypatch):
    arrays = images()
    digest = hashlib.sha256(arrays[1][1].tobytes()).hexdigest()
    monkeypatch.setitem(_cache._KNOWN_LABELS, digest, "fashion-mnist")
    write(offline / "own", idx_files(arrays))
    assert _cache.load_mnist_or_fashion(offline / "own").name == "fashion-mnist"


def test_the_command_falls_to_debian_and_says_so(offline):
    write(offline / "debian", idx_files(images()))
    named = _cache.load_mnist_or_fashion()
    assert_same(named.arrays, images())
    assert named.name == "fashion-mnist"
    assert "Fashion-MNIST" in named.source
    write(offline / "keras/datasets", {"mnist.npz": npz_bytes(images(1))})
    named = _cache.load_mnist_or_fashion()
    assert_same(named.arrays, images(1))
    assert named.name == "mnist"


def test_the_command_without_anything(offline):
    with pytest.raises(FileNotFoundError, match="this command takes in its place"):
        _cache.load_mnist_or_fashion()


def test_mnist_itself_never_becomes_fashion(offline):
    write(offline / "debian", idx_files(images()))
    with pytest.raises(FileNotFoundError):
        mnist.load_data()


def _load_in_a_process(home, content, digest, queue):
    os.environ["KERAS_HOME"] = home
    data_set = _cache._DATA_SETS["mnist"]
    _cache._DATA_SETS["mnist"] = replace(data_set, files={"mnist.npz": digest})
    _download.fetch = lambda url: content
    (x_train, _), _ = mnist.load_data()
    queue.put(int(x_train.sum()))


def test_many_processes_load_at_once(offline):
    content = npz_bytes(images())
    digest = hashlib.sha256(content).hexdigest()
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    arguments = (str(offline / "keras"), content, digest, queue)
    processes = [
        context.Process(target=_load_in_a_process, args=arguments) for _ in range(6)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
    assert [process.exitcode for process in processes] == [0] * 6
    assert {queue.get() for _ in processes} == {int(images()[0][0].sum())}
    folder = offline / "keras/datasets"
    assert [path.name for path in folder.iterdir()] == ["mnist.npz"]
    assert (folder / "mnist.npz").read_bytes() == content


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/missing":
            self.send_error(404)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"content of " + self.path.encode())

    def log_message(self, *arguments):
        pass


REAL_FETCH = _download.fetch


def test_fetch_from_a_server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    server = http.server.HTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        base = f"http://127.0.0.1:{server.server_port}"
        assert REAL_FETCH(f"{base}/file") == b"content of /file"
        with pytest.raises(OSError, match="404"):
            REAL_FETCH(f"{base}/missing")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    with pytest.raises(OSError):
        REAL_FETCH(f"{base}/file")


def test_fetch_gives_up_on_a_name_server_that_does_not_answer(monkeypatch):
    monkeypatch.setattr(_download, "CONNECT_SECONDS", 0.2)
    release = threading.Event()
    monkeypatch.setattr("urllib.request.urlopen", lambda *a, **k: release.wait(10))
    start = time.monotonic()
    with pytest.raises(OSError, match="no answer from"):
        REAL_FETCH("http://nowhere.invalid/file")
    assert time.monotonic() - start < 5
    release.set()
