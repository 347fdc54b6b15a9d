# SPDX-License-Identifier: MIT
"""Attention written in single ops: it becomes the op where no bit changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ipu import keras, tf

BATCH, HEADS, QUERIES, KEYS, SIZE, VALUES = 2, 3, 7, 9, 4, 5


def wave(*shape: int, phase: float = 0.0) -> Any:
    numbers = np.sin(1.7 * np.arange(np.prod(shape)) + phase)
    return tf.constant(np.asarray(numbers.reshape(shape), np.float32))


def operands(*axes: str) -> list[Any]:
    """Tensors by the letters of their axes."""
    sizes = {
        "b": BATCH,
        "h": HEADS,
        "q": QUERIES,
        "k": KEYS,
        "d": SIZE,
        "e": VALUES,
        "B": BATCH * HEADS,
    }
    shapes = [[sizes[letter] for letter in name] for name in axes]
    return [wave(*shape, phase=i) for i, shape in enumerate(shapes)]


PADDING = np.arange(KEYS) > np.array([[5], [7]])  # [batch, keys]: what is padding


# --- spellings ------------------------------------------------------------------------


def plain(q: Any, k: Any, v: Any) -> Any:
    return tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True)), v)


def scaled(q: Any, k: Any, v: Any) -> Any:
    scores = tf.matmul(q, k, transpose_b=True) * (1.0 / SIZE**0.5)
    return tf.nn.softmax(scores, axis=-1) @ v


def scale_in_front(q: Any, k: Any, v: Any) -> Any:
    return tf.nn.softmax(0.3 * tf.matmul(q, k, transpose_b=True)) @ v


def divided(q: Any, k: Any, v: Any) -> Any:
    """By the root of 4, as TensorFlow's tutorial divides."""
    size = tf.cast(tf.shape(k)[-1], tf.float32)
    scores = tf.matmul(q, k, transpose_b=True) / tf.math.sqrt(size)
    return tf.matmul(tf.nn.softmax(scores, axis=-1), v)


def query_scaled(q: Any, k: Any, v: Any) -> Any:
    return tf.nn.softmax(tf.matmul(q * 0.3, k, transpose_b=True)) @ v


def transposed_by_hand(q: Any, k: Any, v: Any) -> Any:
    scores = tf.matmul(q, tf.transpose(k, (0, 1, 3, 2))) * 0.5
    return tf.nn.softmax(scores) @ v


def values_transposed(q: Any, k: Any, v: Any) -> Any:
    weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True))
    return tf.matmul(weights, tf.transpose(v, (0, 1, 3, 2)), transpose_b=True)


def keys_as_columns(q: Any, k: Any, v: Any) -> Any:
    return tf.nn.softmax(tf.matmul(q, k) * 0.5) @ v


def by_einsum(q: Any, k: Any, v: Any) -> Any:
    scores = tf.einsum("bqhd,bkhd->bhqk", q, k) * 0.5
    return tf.einsum("bhqk,bkhe->bqhe", tf.nn.softmax(scores), v)


def by_einsum_in_place(q: Any, k: Any, v: Any) -> Any:
    weights = tf.nn.softmax(tf.einsum("bhqd,bhkd->bhqk", q, k) / 2.0)
    return tf.einsum("bhqk,bhke->bhqe", weights, v)


def batch_dot(q: Any, k: Any, v: Any) -> Any:
    dots = keras.layers.Dot(axes=2)([q, k])
    return keras.layers.Dot(axes=(2, 1))([keras.layers.Softmax()(dots), v])


def split_heads(q: Any, k: Any, v: Any) -> Any:
    """[batch, steps, heads, size], moved and joined to [batch * heads, steps, size]."""
    turned = [tf.transpose(x, (0, 2, 1, 3)) for x in (q, k, v)]
    q, k, v = (tf.reshape(x, (BATCH * HEADS, *x.shape[2:])) for x in turned)
    mixed = tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * 0.5), v)
    mixed = tf.reshape(mixed, (BATCH, HEADS, QUERIES, VALUES))
    return tf.transpose(mixed, (0, 2, 1, 3))


def padded(q: Any, k: Any, v: Any) -> Any:
    """TensorFlow's tutorial: 1 where a key is padding."""
    mask = tf.cast(tf.constant(PADDING), tf.float32)[:, tf.newaxis, tf.newaxis, :]
    scores = tf.matmul(q, k, transpose_b=True) / 2.0
    scores += mask * -1e9
    return tf.matmul(tf.nn.softmax(scores), v)


def masked_as_keras(q: Any, k: Any, v: Any) -> Any:
    seen = tf.range(QUERIES)[:, None] + 2 >= tf.range(KEYS)[None, :]
    scores = tf.matmul(q, k, transpose_b=True) * 0.5
    scores = -1e9 * (1.0 - tf.cast(seen, tf.float32)) + scores
    return tf.nn.softmax(scores) @ v


def masks_joined(q: Any, k: Any, v: Any) -> Any:
    later = tf.range(KEYS)[None, :] > tf.range(QUERIES)[:, None] + 2
    padding = tf.cast(tf.constant(PADDING), tf.float32)[:, None, None, :]
    mask = tf.maximum(tf.cast(later, tf.float32), padding)
    scores = tf.matmul(q, k, transpose_b=True) * 0.5 + mask * -1e9
    return tf.nn.softmax(scores) @ v


def masks_multiplied(q: Any, k: Any, v: Any) -> Any:
    seen = tf.range(QUERIES)[:, None] + 2 >= tf.range(KEYS)[None, :]
    kept = tf.cast(tf.constant(~PADDING), tf.float32)[:, None, None, :]
    mask = tf.cast(seen, tf.float32) * kept
    scores = tf.matmul(q, k, transpose_b=True) + (1.0 - mask) * -1e9
    return tf.nn.softmax(scores) @ v


def a_whole_row_hidden(q: Any, k: Any, v: Any) -> Any:
    mask = tf.cast(tf.range(QUERIES) == 3, tf.float32)[:, None] * tf.ones((1, KEYS))
    mask = tf.cast(mask > 0, tf.float32)
    return tf.nn.softmax(tf.matmul(q, k, transpose_b=True) + mask * -1e9) @ v


def by_the_root_of_three(q: Any, k: Any, v: Any) -> Any:
    """Which no product is: a third is not a float."""
    return tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / tf.sqrt(3.0)) @ v


def as_bert(q: Any, k: Any, v: Any) -> Any:
    seen = tf.cast(tf.constant(~PADDING), tf.float32)[:, None, None, :]
    scores = tf.matmul(q, k, transpose_b=True) / tf.sqrt(3.0)
    return tf.nn.softmax(scores + (1.0 - seen) * -10000.0) @ v


def one_less(q: Any, k: Any, v: Any) -> Any:
    seen = tf.cast(tf.constant(~PADDING), tf.float32)[:, None, None, :]
    return tf.nn.softmax(tf.matmul(q, k, transpose_b=True) + (seen - 1.0) * 1e9) @ v


def a_chosen_mask_added(q: Any, k: Any, v: Any) -> Any:
    mask = tf.where(tf.range(KEYS)[None, :] > tf.range(QUERIES)[:, None], -1e9, 0.0)
    return tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * 0.5 + mask) @ v


def infinity_added(q: Any, k: Any, v: Any) -> Any:
    mask = tf.where(tf.range(KEYS)[None, :] > tf.range(QUERIES)[:, None], -np.inf, 0.0)
    return tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * 0.5 + mask) @ v


def a_row_hidden_by_little(q: Any, k: Any, v: Any) -> Any:
    mask = tf.cast(tf.range(QUERIES) == 3, tf.float32)[:, None] * tf.ones((1, KEYS))
    return tf.nn.softmax(tf.matmul(q, k, transpose_b=True) + mask * -1e4) @ v


def chosen(q: Any, k: Any, v: Any) -> Any:
    scores = tf.matmul(q, k, transpose_b=True)
    hidden = tf.constant(PADDING)[:, None, None, :]
    return tf.nn.softmax(tf.where(hidden, -1e9, scores)) @ v


def kept(q: Any, k: Any, v: Any) -> Any:
    scores = tf.matmul(q, k, transpose_b=True) / tf.sqrt(3.0)
    seen = tf.range(QUERIES)[:, None] >= tf.range(KEYS)[None, :]
    return tf.nn.softmax(tf.where(seen, scores, -np.inf)) @ v


def a_row_chosen(q: Any, k: Any, v: Any) -> Any:
    """Scores are large, so that what is added to them would not hide all of them."""
    hidden = tf.range(QUERIES)[:, None] == tf.constant([3] * KEYS)[None, :]
    scores = tf.matmul(q, k, transpose_b=True) * -300.0
    return tf.nn.softmax(tf.where(hidden, tf.float32.min, scores)) @ v


def a_row_of_nothing(q: Any, k: Any, v: Any) -> Any:
    hidden = tf.range(QUERIES)[:, None] == tf.constant([3] * KEYS)[None, :]
    return (
        tf.nn.softmax(tf.where(hidden, -np.inf, tf.matmul(q, k, transpose_b=True))) @ v
    )


def chosen_twice(q: Any, k: Any, v: Any) -> Any:
    scores = tf.matmul(q, k, transpose_b=True) * 0.5
    seen = tf.range(QUERIES)[:, None] >= tf.range(KEYS)[None, :]
    scores = tf.where(seen, scores, -1e9)
    return (
        tf.nn.softmax(tf.where(tf.constant(PADDING)[:, None, None, :], -1e9, scores))
        @ v
    )


def chosen_of_joined_heads(q: Any, k: Any, v: Any) -> Any:
    seen = tf.range(QUERIES)[:, None] >= tf.range(KEYS)[None, :]
    scores = tf.einsum("bqhd,bkhd->bhqk", q, k) / tf.sqrt(3.0)
    weights = tf.nn.softmax(tf.where(seen, scores, -1e9))
    return tf.einsum("bhqk,bkhe->bqhe", weights, v)


def between_casts(q: Any, k: Any, v: Any) -> Any:
    """float16 outside, float32 inside, as mixed precision has it."""
    q, k, v = (tf.cast(tf.cast(x, tf.float16), tf.float32) for x in (q, k, v))
    return tf.cast(tf.cast(kept(q, k, v), tf.float16), tf.float32)


def some(k: Any, level: float) -> Any:
    """Which keys are above a level, [batch, 1, 1, keys]: no constant."""
    return (k[:, :1, :, 0] > level)[:, :, None, :]


def padding_of_data(q: Any, k: Any, v: Any) -> Any:
    mask = tf.cast(k[:, :1, :, 0] > 0.5, tf.float32)[:, :, None, :]
    return tf.nn.softmax(tf.matmul(q, k, transpose_b=True) + mask * -1e9) @ v


def seen_of_data(q: Any, k: Any, v: Any) -> Any:
    hidden = -1e9 * (1.0 - tf.cast(some(k, 0.5), tf.float32))
    return tf.nn.softmax(tf.matmul(q, k, transpose_b=True) + hidden) @ v


def one_less_of_data(q: Any, k: Any, v: Any) -> Any:
    scores = tf.matmul(q, k, transpose_b=True)
    return tf.nn.softmax(scores + (tf.cast(some(k, 0.5), tf.float32) - 1.0) * 1e9) @ v


def chosen_of_data(q: Any, k: Any, v: Any) -> Any:
    mask = tf.where(some(k, 0.5), -1e9, 0.0)
    return tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * 0.5 + mask) @ v


def joined_of_data(q: Any, k: Any, v: Any) -> Any:
    masks = [tf.cast(some(k, level), tf.float32) for level in (0.7, 0.9)]
    scores = tf.matmul(q, k, transpose_b=True)
    return tf.nn.softmax(scores + tf.maximum(*masks) * -1e9) @ v


def multiplied_of_data(q: Any, k: Any, v: Any) -> Any:
    masks = [tf.cast(some(k, level), tf.float32) for level in (0.7, -0.2)]
    scores = tf.matmul(q, k, transpose_b=True)
    return tf.nn.softmax(scores + masks[0] * masks[1] * -1e9) @ v


SPELLINGS: dict[Callable[..., Any], tuple[str, str, str]] = {
    plain: ("bhqd", "bhkd", "bhke"),
    scaled: ("bhqd", "bhkd", "bhke"),
    scale_in_front: ("bqd", "bkd", "bke"),
    divided: ("bhqd", "bhkd", "bhke"),
    query_scaled: ("qd", "kd", "ke"),
    transposed_by_hand: ("bhqd", "bhkd", "bhke"),
    values_transposed: ("bhqd", "bhkd", "bhke"),
    keys_as_columns: ("bhqd", "bhdk", "bhke"),
    by_einsum: ("bqhd", "bkhd", "bkhe"),
    by_einsum_in_place: ("bhqd", "bhkd", "bhke"),
    batch_dot: ("bqd", "bkd", "bke"),
    split_heads: ("bqhd", "bkhd", "bkhe"),
    padded: ("bhqd", "bhkd", "bhke"),
    masked_as_keras: ("bhqd", "bhkd", "bhke"),
    masks_joined: ("bhqd", "bhkd", "bhke"),
    masks_multiplied: ("bhqd", "bhkd", "bhke"),
    a_whole_row_hidden: ("bhqd", "bhkd", "bhke"),
    by_the_root_of_three: ("bhqd", "bhkd", "bhke"),
    as_bert: ("bhqd", "bhkd", "bhke"),
    one_less: ("bhqd", "bhkd", "bhke"),
    a_chosen_mask_added: ("bhqd", "bhkd", "bhke"),
    infinity_added: ("bhqd", "bhkd", "bhke"),
    a_row_hidden_by_little: ("bhqd", "bhkd", "bhke"),
    chosen: ("bhqd", "bhkd", "bhke"),
    kept: ("bhqd", "bhkd", "bhke"),
    a_row_chosen: ("bhqd", "bhkd", "bhke"),
    a_row_of_nothing: ("bhqd", "bhkd", "bhke"),
    chosen_twice: ("bhqd", "bhkd", "bhke"),
    padding_of_data: ("bhqd", "bhkd", "bhke"),
    seen_of_data: ("bhqd", "bhkd", "bhke"),
    one_less_of_data: ("bhqd", "bhkd", "bhke"),
    chosen_of_data: ("bhqd", "bhkd", "bhke"),
    joined_of_data: ("bhqd", "bhkd", "bhke"),
    multiplied_of_data: ("bhqd", "bhkd", "bhke"),
    between_casts: ("bhqd", "bhkd", "bhke"),
    chosen_of_joined_heads: ("bqhd", "bkhd", "bkhe"),
}


def with_gradients(
    attend: Callable[..., Any], given: list[Any], wanted: tuple[int, ...]
) -> list[Any]:
    with tf.GradientTape() as tape:
        tape.watch(given)
        y = attend(*given)
        loss = tf.reduce_sum(y * wave(*y.shape, phase=9))
    return [y, *tape.gradient(loss, [given[i] for i in wanted])]


def compiled(run: Callable[..., Any], given: list[Any]) -> tuple[list[Any], str]:
    """What a program gives, and how it reads."""
    function = tf.function(run)
    return list(function(*given)), str(function.traced(*given).program.text)


def check(
    attend: Callable[..., Any],
    axes: tuple[str, ...],
    wanted: tuple[int, ...],
    fires: bool = True,
) -> None:
    given = operands(*axes)

    def run(*inputs: Any) -> list[Any]:
        return with_gradients(attend, list(inputs), wanted)

    got, text = compiled(run, given)
    assert ("kernel  attention." in text) == fires, text
    assert ("kernel  attention_grad." in text) == (fires and bool(wanted)), text
    assert ("softmax" in text) != fires
    for one, other in zip(got, run(*given), strict=True):
        assert one.numpy().tobytes() == other.numpy().tobytes()


@pytest.mark.parametrize("attend", SPELLINGS, ids=lambda f: f.__name__)
def test_it_becomes_the_op_forward_and_back(attend: Callable[..., Any]) -> None:
    for wanted in ((), (0, 1, 2)):
        check(attend, SPELLINGS[attend], wanted)


@pytest.mark.parametrize("wanted", [(0,), (1,), (0, 2), (1, 2)], ids=str)
def test_some_gradients(wanted: tuple[int, ...]) -> None:
    for attend in (scaled, by_einsum, keys_as_columns):
        check(attend, SPELLINGS[attend], wanted)


def test_attention_of_one_tensor_upon_itself() -> None:
    def attend(x: Any) -> Any:
        return plain(x, x, x)

    check(attend, ("bhqd",), (0,))


def test_one_behind_another() -> None:
    def attend(q: Any, k: Any, v: Any) -> Any:
        return scaled(q, scaled(k, k, k), scaled(2.0 * k, k, v))

    given = operands("bhqd", "bhkd", "bhke")

    def run(*inputs: Any) -> list[Any]:
        return with_gradients(attend, list(inputs), (0, 1, 2))

    got, text = compiled(run, given)
    assert text.count("kernel  attention.") == 3
    assert text.count("kernel  attention_grad.") == 3
    for one, other in zip(got, run(*given), strict=True):
        assert one.numpy().tobytes() == other.numpy().tobytes()


# --- where it must not --------------------------------------------------------------


def scores_twice(q: Any, k: Any, v: Any) -> Any:
    scores = tf.matmul(q, k, transpose_b=True)
    return tf.nn.softmax(scores) @ v + tf.reduce_sum(scores)


def weights_twice(q: Any, k: Any, v: Any) -> Any:
    weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True))
    return weights @ v + tf.reduce_max(weights)


def mixed_twice(q: Any, k: Any, v: Any) -> Any:
    weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True))
    return weights @ v + weights @ (v * v)


def other_axis(q: Any, k: Any, v: Any) -> Any:
    return tf.nn.softmax(tf.matmul(q, k, transpose_b=True), axis=-2) @ v


def mask_of_numbers(q: Any, k: Any, v: Any) -> Any:
    scores = tf.matmul(q, k, transpose_b=True)
    return tf.nn.softmax(scores + tf.cos(k[..., :1, :1]) * -1e9) @ v


def two_masks(q: Any, k: Any, v: Any) -> Any:
    mask = tf.cast(tf.constant(PADDING), tf.float32)[:, None, None, :] * -1e9
    later = tf.range(KEYS)[None, :] > tf.range(QUERIES)[:, None]
    scores = tf.matmul(q, k, transpose_b=True) + mask
    return tf.nn.softmax(scores + tf.cast(later, tf.float32) * -1e9) @ v


def scaled_behind_the_mask(q: Any, k: Any, v: Any) -> Any:
    mask = tf.cast(tf.constant(PADDING), tf.float32)[:, None, None, :] * -1e9
    return tf.nn.softmax((tf.matmul(q, k, transpose_b=True) + mask) * 0.5) @ v


def one_key_for_all(q: Any, k: Any, v: Any) -> Any:
    return tf.nn.softmax(tf.matmul(q, k[:1, :1], transpose_b=True)) @ v


def three_numbers(q: Any, k: Any, v: Any) -> Any:
    mask = tf.constant([0.0, -1e9, 0.5] * (KEYS // 3))
    return tf.nn.softmax(tf.matmul(q, k, transpose_b=True) + mask) @ v


def chosen_of_numbers(q: Any, k: Any, v: Any) -> Any:
    hidden = tf.constant(PADDING)[:, None, None, :]
    scores = tf.matmul(q, k, transpose_b=True)
    return tf.nn.softmax(tf.where(hidden, tf.cos(k[..., :1, :1]), scores)) @ v


def added_and_chosen(q: Any, k: Any, v: Any) -> Any:
    mask = tf.cast(tf.constant(PADDING), tf.float32)[:, None, None, :] * -1e9
    seen = tf.range(QUERIES)[:, None] >= tf.range(KEYS)[None, :]
    scores = tf.matmul(q, k, transpose_b=True) + mask
    return tf.nn.softmax(tf.where(seen, scores, -1e9)) @ v


def chosen_by_two_numbers(q: Any, k: Any, v: Any) -> Any:
    seen = tf.range(QUERIES)[:, None] >= tf.range(KEYS)[None, :]
    scores = tf.where(seen, tf.matmul(q, k, transpose_b=True), -1e9)
    return (
        tf.nn.softmax(tf.where(tf.constant(PADDING)[:, None, None, :], -1e4, scores))
        @ v
    )


def whole_numbers(q: Any, k: Any, v: Any) -> Any:
    mask = tf.cast(tf.cast(k[:, :1, :, 0] * 3.0, tf.int32), tf.float32)[:, :, None, :]
    return tf.nn.softmax(tf.matmul(q, k, transpose_b=True) + mask * -1e9) @ v


def joined(join: Any, first: Any, second: Any) -> Callable[..., Any]:
    """Two masks of data, of which one is not of zeros and ones."""

    def attend(q: Any, k: Any, v: Any) -> Any:
        masks = [tf.cast(some(k, level), tf.float32) for level in (0.7, 0.2)]
        mask = join(first(masks[0]), second(masks[1]))
        return tf.nn.softmax(tf.matmul(q, k, transpose_b=True) + mask * -1e9) @ v

    return attend


def as_it_is(mask: Any) -> Any:
    return mask


def one_less_than(mask: Any) -> Any:
    return mask - 1.0


def twice(mask: Any) -> Any:
    return mask * 2.0


def chosen_of_a_number(q: Any, k: Any, v: Any) -> Any:
    mask = tf.where(some(k, 0.5), tf.cos(k[..., :1, :1]), 0.0)
    return tf.nn.softmax(tf.matmul(q, k, transpose_b=True) + mask) @ v


def chosen_or_a_number(q: Any, k: Any, v: Any) -> Any:
    mask = tf.where(some(k, 0.5), -1e9, tf.cos(k[..., :1, :1]))
    return tf.nn.softmax(tf.matmul(q, k, transpose_b=True) + mask) @ v


def dropped_out(q: Any, k: Any, v: Any) -> Any:
    weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True))
    drawn = tf.random.stateless_uniform(weights.shape, (1, 2))
    return (weights * tf.cast(drawn >= 0.5, tf.float32) * 2.0) @ v


def rounded_scores(q: Any, k: Any, v: Any) -> Any:
    q, k = (tf.cast(x, tf.float16) for x in (q, k))
    scores = tf.cast(tf.matmul(q, k, transpose_b=True), tf.float32)
    return tf.nn.softmax(scores) @ v


@pytest.mark.parametrize(
    "attend",
    [
        scores_twice,
        weights_twice,
        mixed_twice,
        other_axis,
        mask_of_numbers,
        three_numbers,
        chosen_of_numbers,
        added_and_chosen,
        chosen_by_two_numbers,
        whole_numbers,
        chosen_of_a_number,
        chosen_or_a_number,
        *(
            joined(join, *sides)
            for join in (tf.maximum, tf.multiply)
            for other in (one_less_than, twice)
            for sides in ((other, as_it_is), (as_it_is, other))
        ),
        dropped_out,
        rounded_scores,
        two_masks,
        scaled_behind_the_mask,
        one_key_for_all,
    ],
    ids=lambda f: f.__name__,
)
def test_it_stays_as_it_is(attend: Callable[..., Any]) -> None:
    for wanted in ((), (0, 1, 2)):
        check(attend, ("bhqd", "bhkd", "bhke"), wanted, fires=False)


def test_a_gradient_by_the_weights_keeps_them() -> None:
    def run(q: Any, k: Any, v: Any) -> list[Any]:
        with tf.GradientTape() as tape:
            tape.watch([q, k, v])
            weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True))
            y = tf.reduce_sum(tf.sin(weights @ v))
        return [y, *tape.gradient(y, [q, weights])]

    given = operands("bhqd", "bhkd", "bhke")
    got, text = compiled(run, given)
    assert "kernel  attention" not in text
    for one, other in zip(got, run(*given), strict=True):
        assert one.numpy().tobytes() == other.numpy().tobytes()


def test_float16_rounds_in_between() -> None:
    given = [tf.cast(x, tf.float16) for x in operands("bhqd", "bhkd", "bhke")]
    _, text = compiled(lambda *x: [plain(*x)], given)
    assert "kernel  attention" not in text
