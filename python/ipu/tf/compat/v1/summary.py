# SPDX-License-Identifier: MIT
"""``tf.compat.v1.summary``: summaries that sessions compute, and their files.

A summary is a tensor of bytes: a message of TensorBoard's ``summary.proto``. A session
computes it, and a :class:`FileWriter` writes it. Needs the extra ``tensorboard``.

Example:
    >>> import tempfile
    >>> from ipu.tf.compat import v1
    >>> with v1.Graph().as_default(), v1.Session() as session:
    ...     _ = v1.summary.scalar("loss", v1.constant(0.5))
    ...     with v1.summary.FileWriter(tempfile.mkdtemp(), session.graph) as writer:
    ...         writer.add_summary(session.run(v1.summary.merge_all()), global_step=1)
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu._text.errors import InvalidArgumentError
from ipu._text.exports import defined, export
from ipu.tf._graph import mode
from ipu.tf._graph.graph import Graph
from ipu.tf._string_ops.tensors import StringTensor, to_bytes
from ipu.tf._tensor import convert
from ipu.tf._tensor.extras import extra
from ipu.tf.summary import _messages, create_file_writer
from ipu.tf.summary._kinds import png_of
from ipu.tf.tensor_spec import TensorSpec

if TYPE_CHECKING:  # made when it is used
    Summary: Any

_ALL = "summaries"


def _keep(
    kind: str,
    name: str,
    value: Any,
    content_of: Callable[[str, Any], bytes],
    collections: Any,
    family: str | None,
) -> Any:
    """Return a summary as a tensor of the graph, or its bytes where ops run at once.

    Args:
        name: The user's name; the tag is that of the operation.
        content_of: Makes the message of a tag and an array.
        collections: The lists of the graph that get it; None: that of all summaries.
        family: The prefix of the tag, or None.
    """
    clean = re.sub(r"[^-\w.]", "_", name).lstrip("/") or "_"
    if family is not None:
        clean = f"{re.sub(r'[^-/.A-Za-z0-9_]', '_', family)}/{clean}"
    graph = mode.building()
    if graph is None:
        return StringTensor(content_of(clean, np.asarray(value)))
    tag = graph.unique_name(clean, mark_as_used=False)
    if family is not None:
        tag = f"{clean.split('/')[0]}/{tag}"
    made = graph.python(
        kind,
        lambda given: StringTensor(content_of(tag, np.asarray(given))),
        TensorSpec((), "string"),
        (value,),
        clean,
    )
    graph.add_to_collections([_ALL] if collections is None else collections, made)
    return made


def scalar(
    name: str, tensor: Any, collections: Any = None, family: str | None = None
) -> Any:
    """Return a number under a name.

    Args:
        name: The tag, after those of the name scopes.
        tensor: A scalar.
        collections: The lists of the graph that get it; None: ``summaries``.
        family: The prefix of the tag.

    Returns:
        A string tensor.

    Raises:
        InvalidArgumentError: In a run: it is not a scalar.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     print(session.run(v1.summary.scalar("loss", v1.constant(0.5))))
        b'\\n\\x0b\\n\\x04loss\\x15\\x00\\x00\\x00?'
    """

    def content_of(tag: str, value: Any) -> bytes:
        if value.ndim:
            raise InvalidArgumentError(
                f"tags and values are not the same shape: [] != {list(value.shape)} "
                f"(tag '{tag}'). tf.summary.scalar takes a scalar: use tf.reduce_mean."
            )
        return _messages.summary_of(tag, _messages.number_of(float(value)))

    given = convert.convert_to_tensor(tensor)
    return _keep("ScalarSummary", name, given, content_of, collections, family)


def histogram(
    name: str, values: Any, collections: Any = None, family: str | None = None
) -> Any:
    """Return how values are distributed.

    Args:
        name: As for :func:`scalar`.
        values: A tensor of any shape.
        collections, family: As for :func:`scalar`.

    Returns:
        A string tensor.

    Raises:
        InvalidArgumentError: In a run: a value is not finite.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.summary.histogram("weights", v1.ones([3])).op.type
        'HistogramSummary'
    """

    def content_of(tag: str, value: Any) -> bytes:
        if not np.isfinite(value).all():
            found = "Nan" if np.isnan(value).any() else "Infinity"
            raise InvalidArgumentError(f"{found} in summary histogram for: {tag}")
        return _messages.summary_of(tag, _messages.histogram_of(value))

    given = convert.convert_to_tensor(values)
    return _keep("HistogramSummary", name, given, content_of, collections, family)


def image(
    name: str,
    tensor: Any,
    max_outputs: int = 3,
    collections: Any = None,
    family: str | None = None,
) -> Any:
    """Write pictures.

    Args:
        name: As for :func:`scalar`; the tags are ``name/image/0``, ...
        tensor: ``(pictures, height, width, channels)`` with 1, 3 or 4 channels: uint8,
            or floats, which are scaled to fill the range.
        max_outputs: How many of the pictures there are at most.
        collections, family: As for :func:`scalar`.

    Returns:
        A string tensor.

    Raises:
        InvalidArgumentError: In a run: the shape is another.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.summary.image("digits", v1.zeros([2, 8, 8, 1])).dtype
        tf.string
    """

    def content_of(tag: str, value: Any) -> bytes:
        if value.ndim != 4 or value.shape[3] not in (1, 3, 4):
            raise InvalidArgumentError(
                "Tensor must be 4-D with last dim 1, 3, or 4, not "
                f"{list(value.shape)} (tag '{tag}')"
            )
        found = b""
        for index, picture in enumerate(value[:max_outputs]):
            own = f"{tag}/image" if max_outputs == 1 else f"{tag}/image/{index}"
            file = png_of(_pixels(picture))
            content = _messages.image_of(picture.shape, file)
            found += _messages.summary_of(own, content)
        return found

    given = convert.convert_to_tensor(tensor)
    return _keep("ImageSummary", name, given, content_of, collections, family)


def _pixels(picture: Any) -> np.ndarray[Any, Any]:
    """Return a picture as uint8: floats fill the range, with 0 in its middle if some
    are negative (``summary_image_op.cc``)."""
    pixels: np.ndarray[Any, Any]
    if picture.dtype.kind != "f":
        pixels = picture.astype(np.uint8)
        return pixels
    least, most = float(picture.min()), float(picture.max())
    largest = max(abs(least), abs(most))
    scale, middle = (127.0, 128.0) if least < 0 else (255.0, 0.0)
    scaled = picture * np.float32(scale / largest if largest else 0.0) + middle
    pixels = scaled.astype(np.uint8)
    return pixels


def text(name: str, tensor: Any, collections: Any = None) -> Any:
    """Write text, which TensorBoard shows as Markdown.

    Args:
        name: As for :func:`scalar`.
        tensor: A string tensor.
        collections: As for :func:`scalar`.

    Returns:
        A string tensor.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.summary.text("note", v1.constant("**better**")).dtype
        tf.string
    """

    def content_of(tag: str, value: Any) -> bytes:
        texts = [to_bytes(one) for one in value.ravel()]
        tensor = _messages.tensor_of(texts if value.ndim else texts[0])
        return _messages.summary_of(tag, _messages.text_of(tensor))

    given = convert.convert_to_tensor(tensor)
    return _keep("TensorSummaryV2", name, given, content_of, collections, None)


def merge(
    inputs: Sequence[Any], collections: Any = None, name: str | None = None
) -> Any:
    """Join several summaries into one.

    Args:
        inputs: What the functions above gave.
        collections: The lists of the graph that get it; None: none.

    Returns:
        A string tensor.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     one = v1.summary.scalar("one", v1.constant(1.0))
        ...     two = v1.summary.scalar("two", v1.constant(2.0))
        ...     both = session.run(v1.summary.merge([one, two]))
        ...     both == session.run(one) + session.run(two)
        True
    """

    def joined(parts: Sequence[Any]) -> StringTensor:
        return StringTensor(b"".join(to_bytes(one) for one in parts))

    graph = mode.building()
    if graph is None:
        return joined(inputs)
    spec = TensorSpec((), "string")
    with graph.name_scope(name or "Merge"):
        made = graph.python(
            "MergeSummary", lambda *parts: joined(parts), spec, tuple(inputs)
        )
    graph.add_to_collections(collections or (), made)
    return made


def merge_all(
    key: str = _ALL, scope: str | None = None, name: str | None = None
) -> Any:
    """Return all summaries of the default graph as one.

    Args:
        key: The list of the graph that has them.
        scope: The prefix of their names; None: all.

    Returns:
        A string tensor; None where there is no summary.

    Example:
        >>> with v1.Graph().as_default():
        ...     print(v1.summary.merge_all())
        None
    """
    graph = mode.current() or mode.default()
    found = graph.get_collection(key, scope)
    return merge(found, name=name) if found else None


class FileWriter:
    """Writes summaries to a file that TensorBoard shows.

    Args:
        logdir: The folder; it is made.
        graph: A graph that is written first, or None.
        max_queue, flush_secs: Accepted: no event waits.
        graph_def: In place of ``graph``: what ``Graph.as_graph_def`` gave.
        filename_suffix: The end of the file's name.
        session: A session whose graph is taken where ``graph`` is None.

    Raises:
        ImportError: The extra ``tensorboard`` is not installed.

    Example:
        >>> import os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> writer = v1.summary.FileWriter(folder)
        >>> writer.close()
        >>> os.listdir(folder)[0].startswith("events.out.tfevents.")
        True
    """

    def __init__(
        self,
        logdir: Any,
        graph: Any = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        graph_def: Any = None,
        filename_suffix: str | None = None,
        session: Any = None,
    ) -> None:
        self._folder = logdir
        self._suffix = filename_suffix or ""
        self._open()
        chosen = graph or graph_def or (session and session.graph)
        if chosen:
            self.add_graph(chosen)

    def _open(self) -> None:
        self._writer = create_file_writer(self._folder, filename_suffix=self._suffix)
        self._is_closed = False

    def get_logdir(self) -> str:
        """Return the folder."""
        return str(self._folder)

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """Write a summary.

        Args:
            summary: What a session computed, or a ``Summary``.
            global_step: The step that it belongs to.
        """
        made = getattr(summary, "SerializeToString", None)
        if made is not None:
            content = made()
        else:
            content = to_bytes(getattr(summary, "numpy", lambda: summary)())
        step = 0 if global_step is None else int(np.asarray(global_step))
        self._writer._write(_messages.event_of_values(time.time(), step, content))

    def add_event(self, event: Any) -> None:
        """Write an ``Event`` message of TensorBoard's."""
        self._writer._write(event.SerializeToString())

    def add_graph(
        self, graph: Any, global_step: Any = None, graph_def: Any = None
    ) -> None:
        """Write the operations of a graph.

        Args:
            graph: The graph.
            global_step: Accepted and not used.
            graph_def: In place of ``graph``.

        Raises:
            TypeError: It is not a graph.
        """
        chosen = graph_def if graph is None else graph
        if not isinstance(chosen, Graph):
            raise TypeError(f"`graph` must be a tf.Graph. Received: {chosen!r}.")
        nodes = [
            (op.name, op.type, [tensor.name.removesuffix(":0") for tensor in op.inputs])
            for op in chosen.get_operations()
        ]
        self._writer._add_graph(_messages.graph_of(nodes))

    def add_meta_graph(self, meta_graph_def: Any, global_step: Any = None) -> None:
        """Do nothing: there are no meta graphs."""

    def add_session_log(self, session_log: Any, global_step: Any = None) -> None:
        """Do nothing: there are no logs of sessions."""

    def add_run_metadata(
        self, run_metadata: Any, tag: str, global_step: Any = None
    ) -> None:
        """Do nothing: see ``python -m ipu profile``."""

    def flush(self) -> None:
        """Do nothing: what was written is in the file."""

    def close(self) -> None:
        """End the file."""
        self._writer.close()
        self._is_closed = True

    def reopen(self) -> None:
        """Begin another file after :meth:`close`."""
        if self._is_closed:
            self._open()

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def _message() -> Any:
    """Return ``tf.Summary``: the message that summaries are, of the package
    `tensorboard`.

    Raises:
        ImportError: It is not installed.

    Example:
        >>> value = v1.Summary.Value(tag="loss", simple_value=0.5)
        >>> len(v1.Summary(value=[value]).SerializeToString())
        13
    """
    module = "tensorboard.compat.proto.summary_pb2"
    return extra(module, "tf.Summary", "tensorboard", "tensorboard").Summary


export(__name__, defined(__name__, ["Summary"]), {"Summary": _message})
