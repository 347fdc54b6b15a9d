# SPDX-License-Identifier: MIT
"""Files from the network and files in the Keras cache.

A download is held in memory, compared with its checksum, and only then moved into the
cache in one step. So processes that load at the same time, or one that is killed,
never leave half a file where another reads it.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from ipu._device.locks import Event
from ipu._files.whole import write_whole
from ipu._text.log import logger

CONNECT_SECONDS = 4.5
_LARGEST_BYTES = 1 << 28


def cache_folder() -> Path:
    """Return where Keras keeps data sets: $KERAS_HOME/datasets, or
    ~/.keras/datasets."""
    home = os.environ.get("KERAS_HOME") or "~/.keras"
    return Path(home).expanduser() / "datasets"


class _Transfer:
    """One download in a thread of its own.

    Looking up a host name has no time limit, and without a network it can take long.
    So the caller waits for the thread, and leaves it where it is after the limit.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.answered = Event()
        self.ended = Event()
        self.content = b""
        self.error: Exception | None = None

    def run(self) -> None:
        from urllib.request import urlopen

        try:
            with urlopen(self.url, timeout=CONNECT_SECONDS) as response:
                self.answered.set()
                self.content = response.read(_LARGEST_BYTES)
        except Exception as error:
            self.error = error
        finally:
            self.answered.set()
            self.ended.set()


def fetch(url: str) -> bytes:
    """Download a file.

    Returns:
        The content.
    """
    transfer = _Transfer(url)
    threading.Thread(target=transfer.run, name="ipu-download", daemon=True).start()
    if not transfer.answered.wait(CONNECT_SECONDS):
        raise TimeoutError(f"no answer from {url} within {CONNECT_SECONDS} seconds")
    if not transfer.ended.is_set():
        logger.info("Downloading data from %s", url)
    transfer.ended.wait()
    if isinstance(transfer.error, OSError):
        raise transfer.error
    if transfer.error is not None:
        raise OSError(f"{type(transfer.error).__name__}: {transfer.error}")
    return transfer.content


def store(path: Path, content: bytes) -> None:
    """Put a file into the cache in one step; where that fails, say so and go on."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(str(path), content)
    except OSError as error:
        logger.warning("Could not keep %s for the next time: %s", path, error)
