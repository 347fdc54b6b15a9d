# SPDX-License-Identifier: MIT
"""CTC as layers: the loss, and labels by beam search.

Source: ``ipu.keras.layers`` and ``ipu.keras.losses`` of SDK 2.1 to 3.4.
"""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu._text.suggestions import refuse_unknown
from ipu.keras._types import Tensor
from ipu.keras.layers import Layer
from ipu.ops import nn_ops


class CTCLoss(Layer):
    """The CTC loss of each sample, as a layer.

    Args:
        blank_index: The class that stands for no label.
        from_logits: Whether the data are logits, or logarithms of probabilities.

    Example:
        >>> loss = CTCLoss(from_logits=True)([[1]], [[[0.0, 0.0]]], [1], [1])
        >>> [round(float(x), 4) for x in loss]
        [0.6931]
    """

    def __init__(
        self, blank_index: int = 0, from_logits: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.blank_index = blank_index
        self.from_logits = from_logits

    def call(
        self,
        labels: Any,
        data: Tensor,
        label_length: Any,
        data_length: Any,
        **kwargs: Any,
    ) -> Tensor:
        """Compute.

        Args:
            labels: Classes ``[batch, longest label]``; after a label's end anything.
            data: ``[time, batch, classes]``.
            label_length: How long each label is, ``[batch]``.
            data_length: How many times of each sample count, ``[batch]``.
            **kwargs: ``training``, without effect.

        Returns:
            ``[batch]``.
        """
        refuse_unknown(type(self).__name__, kwargs, ("mask", "training"))
        compute = (
            nn_ops.ctc_loss_v2 if self.from_logits else nn_ops.ctc_loss_with_log_probs
        )
        of_labels, of_data = (
            tf.reshape(tf.cast(length, tf.int32), [-1])
            for length in (label_length, data_length)
        )
        classes = tf.cast(labels, tf.int32)
        loss: Tensor = compute(classes, data, of_labels, of_data, self.blank_index)
        return loss


class CTCInferenceLayer(Layer):
    """The most probable labels of each sample, and their probabilities.

    Args:
        blank_index: The class that stands for no label.
        beam_width: How many labels are kept from one time to the next.
        top_paths: How many are given.
        from_logits: Whether the data are logits, or logarithms of probabilities.

    Example:
        >>> data = tf.math.log([[[0.1, 0.9]], [[0.6, 0.4]]])
        >>> best, lengths, labels = CTCInferenceLayer(beam_width=4)(data, [2])
        >>> lengths.numpy().tolist(), labels.numpy().tolist()
        ([[1]], [[[1, 0]]])
    """

    def __init__(
        self,
        blank_index: int = 0,
        beam_width: int = 100,
        top_paths: int = 1,
        from_logits: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.blank_index = blank_index
        self.beam_width = beam_width
        self.top_paths = top_paths
        self.from_logits = from_logits

    def call(self, data: Tensor, data_length: Any, **kwargs: Any) -> Any:
        """Search.

        Args:
            data: ``[time, batch, classes]``.
            data_length: How many times of each sample count, ``[batch]``.
            **kwargs: ``training``, without effect.

        Returns:
            Negative logarithms of the probabilities ``[batch, top_paths]``, the best
            first; the labels' lengths; the labels ``[batch, top_paths, time]``, after
            their end the blank.
        """
        refuse_unknown(type(self).__name__, kwargs, ("mask", "training"))
        data = tf.convert_to_tensor(data)
        if self.from_logits:
            data = tf.nn.log_softmax(tf.cast(data, tf.float32))
        return nn_ops.ctc_beam_search_decoder_with_log_probs(
            data, data_length, self.beam_width, self.top_paths, self.blank_index
        )


class CTCPredictionsLayer(CTCInferenceLayer):
    """The most probable labels of each sample alone.

    Args:
        blank_index: The class that stands for no label.
        beam_width: How many labels are kept from one time to the next.
        top_paths: How many are looked at.
        select_most_likely_path: Whether to give the best one, or all of them.
        from_logits: Whether the data are logits, or logarithms of probabilities.

    Example:
        >>> data = tf.math.log([[[0.1, 0.9]], [[0.6, 0.4]]])
        >>> CTCPredictionsLayer(beam_width=4)(data, [2]).numpy().tolist()
        [[1, 0]]
    """

    def __init__(
        self,
        blank_index: int = 0,
        beam_width: int = 100,
        top_paths: int = 1,
        select_most_likely_path: bool = True,
        from_logits: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(blank_index, beam_width, top_paths, from_logits, **kwargs)
        self.select_most_likely_path = select_most_likely_path

    def call(self, data: Tensor, data_length: Any, **kwargs: Any) -> Any:
        """Search.

        Args:
            data: ``[time, batch, classes]``.
            data_length: How many times of each sample count, ``[batch]``.
            **kwargs: ``training``, without effect.

        Returns:
            The labels ``[batch, time]``, or ``[batch, top_paths, time]``; after their
            end the blank.
        """
        _, _, labels = super().call(data, data_length, **kwargs)
        return labels[:, 0] if self.select_most_likely_path else labels
