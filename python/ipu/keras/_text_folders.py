# SPDX-License-Identifier: MIT
"""``text_dataset_from_directory``: a folder of texts as a data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu import tf
from ipu.keras._class_folders import FolderOptions, dataset_of_files


def text_dataset_from_directory(
    directory: Any,
    labels: Any = "inferred",
    label_mode: str | None = "int",
    class_names: Sequence[str] | None = None,
    batch_size: int | None = 32,
    max_length: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    validation_split: float | None = None,
    subset: str | None = None,
    follow_links: bool = False,
    verbose: bool = True,
) -> Any:
    """Make a data set of the texts in a folder: files whose names end in ``.txt``.

    Args:
        directory: The folder. With ``labels="inferred"`` it has a folder for each
            class.
        labels: "inferred"; None for texts alone; or a number for each text, in the
            order of the sorted paths.
        label_mode: "int" (int32), "categorical" (one-hot float32), "binary" (float32
            [1], of two classes) or None.
        class_names: The classes' folders in the order of their numbers; None: sorted.
        batch_size: Texts in a batch; None: not batched.
        max_length: How many bytes of a text are kept; None: all.
        shuffle: Whether the order is random, and another one in each pass.
        seed: Of the order, and of the cut of ``validation_split``.
        validation_split: The share of texts of the subset "validation".
        subset: "training", "validation", or "both" for a pair of data sets.
        follow_links: Whether links to folders are followed.
        verbose: Whether the number of files is printed.

    Returns:
        A ``tf.data.Dataset`` of (texts, labels), or of texts. It has the attributes
        ``class_names`` and ``file_paths``. ``keras.layers.TextVectorization`` makes
        numbers of texts.

    Raises:
        ValueError: A folder without classes or texts; arguments that do not fit.
        FileNotFoundError: There is no such folder.

    Source: ``tf.keras.utils.text_dataset_from_directory``.

    Example:
        >>> import os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> for name, text in (("good", "fine"), ("bad", "awful")):
        ...     tf.io.write_file(os.path.join(folder, name, "0.txt"), text)
        >>> texts = text_dataset_from_directory(folder, shuffle=False, verbose=False)
        >>> [(x.numpy().tolist(), y.numpy().tolist()) for x, y in texts]
        [([b'awful', b'fine'], [0, 1])]
    """

    def load(path: Any, *label: Any) -> Any:
        text = tf.io.read_file(path)
        if max_length is not None:
            text = tf.strings.substr(text, 0, max_length)
        return (text, *label) if label else text

    options = FolderOptions(
        labels,
        label_mode,
        class_names,
        batch_size,
        shuffle,
        seed,
        validation_split,
        subset,
        follow_links,
        verbose,
    )
    return dataset_of_files(directory, "text files", (".txt",), load, options)
