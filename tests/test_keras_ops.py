# SPDX-License-Identifier: MIT
"""`keras.ops`: examples, and each row against NumPy."""

from __future__ import annotations

import doctest
import inspect
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grouped import in_groups
from test_docstrings import Rounded

from ipu import ipu_strategy, keras, tf
from ipu.tf.compat import v1

ops = keras.ops


def public() -> Iterator[tuple[str, Any]]:
    for module, prefix in ((ops, ""), (ops.image, "image.")):
        for name in module.__all__:
            if inspect.isfunction(getattr(module, name)):
                yield prefix + name, getattr(module, name)


NAMES = dict(public())


@in_groups(NAMES)
def test_examples(name: str) -> None:
    names = {"keras": keras, "tf": tf, "np": np}
    parser, report = doctest.DocTestParser(), []
    told = parser.get_doctest(inspect.getdoc(NAMES[name]), names, name, None, 0)
    assert told.examples
    doctest.DocTestRunner(Rounded(), verbose=False).run(told, out=report.append)
    assert not report, "".join(report)


# --- against NumPy

RNG = np.random.default_rng(0)
GIVEN = {
    "A": RNG.normal(size=(2, 3, 4)).astype("f4"),
    "B": RNG.normal(size=(3, 4)).astype("f4"),
    "P": RNG.uniform(0.1, 0.9, (3, 4)).astype("f4"),
    "I": RNG.integers(-5, 6, (3, 4)).astype("i4"),
    "J": RNG.integers(1, 4, (3, 4)).astype("i4"),
    "K": np.array([True, False, True, True]),
    "U": np.array([1, 200, 7, 0], "u1"),
    "V": np.float32([1, -2, 3]),
    "W": np.float32([0.5, 4, -1]),
    "H": np.float16([1.5, -2.25, 3]),
    "N": np.float32([1, np.nan, np.inf, -np.inf]),
    "S": np.float32([1, 2, 4, 8]),
    "Q": RNG.normal(size=(3, 3)).astype("f4"),
}
# the same text of both; what NumPy calls otherwise comes after " | "
CASES = (
    """
absolute(I)
abs(A)
arccos(P)
arccosh(1 + P)
arcsin(P)
arcsinh(A)
arctan(I)
arctanh(P)
cbrt(A)
ceil(A)
copy(I)
cos(I)
cosh(A)
deg2rad(A)
exp(I)
exp(H)
exp2(A)
expm1(A)
floor(A)
isfinite(N)
isinf(N)
isnan(N)
isneginf(N)
isposinf(N)
log(P)
log10(P)
log1p(P)
log2(J)
logical_not(I)
negative(I)
ones_like(I)
ones_like(I, 'float32')
rad2deg(A)
reciprocal(V)
round(A)
round(A, 2)
sign(A)
sign(I)
signbit(A)
sin(A)
sinc(np.append(V, 0))
sinh(A)
sqrt(P)
square(I)
tan(P)
tanh(A)
trunc(A)
trunc(I)
zeros_like(A)
add(A, B)
add(I, 0.5) | np.float32(I + 0.5)
add(K, K)
add(K, 2)
add(U, 1)
add(U, I[0])
add(H, V)
add(H, 1)
add(H, np.int32([1, 2, 3])) | H + np.float16([1, 2, 3])
arctan2(A, B)
bitwise_and(I, J)
bitwise_invert(I)
bitwise_left_shift(J, 2)
bitwise_not(I)
bitwise_or(I, J)
bitwise_right_shift(I, 1)
bitwise_xor(I, J)
left_shift(J, 1)
right_shift(J, 1)
divide(A, B)
divide(I, J)
divide_no_nan(A, np.float32([0, 1, 2, 0])) | A * np.float32([0, 1, 0.5, 0])
equal(I, J)
floor_divide(A, B)
floor_divide(I, J)
greater(A, B)
greater_equal(I, J)
heaviside(V, 0.5)
hypot(A, B)
less(A, 0)
less_equal(I, J)
logaddexp(A, B)
logaddexp2(A, B)
logical_and(I, J)
logical_or(I, 0 * J)
logical_xor(I, J)
maximum(A, B)
maximum(K, False)
minimum(A, 0.5)
mod(I, J)
mod(A, B)
multiply(A, 2)
not_equal(I, J)
nextafter(V, W)
power(P, B)
power(J, 2)
subtract(A, I)
true_divide(I, 2) | np.float32(I / 2)
isclose(A, A + np.float32(1e-6))
isclose(N, N, equal_nan=True)
all(I)
all(I, axis=0, keepdims=True)
any(I, axis=(0, 1))
amax(A, axis=1)
amin(A, axis=(0, 2))
argmax(A)
argmax(A, axis=1)
argmin(A, axis=2, keepdims=True)
argmin(A, keepdims=True)
average(A, axis=1)
average(A, axis=1, weights=V)
average(B, weights=P)
count_nonzero(I, axis=0)
cumprod(J)
cumsum(K)
cumsum(A, axis=1)
max(A, axis=(0, 1), keepdims=True)
max(K)
max(A, initial=9)
mean(I)
mean(A, axis=-1, keepdims=True)
median(A)
median(A, axis=1, keepdims=True)
median(A, axis=(0, 2))
min(I, axis=1)
prod(J, axis=0)
prod(K)
quantile(A, 0.3)
quantile(A, np.array([0.2, 0.5]), axis=1)
quantile(A, np.array([0.2, 0.5]), axis=(0, 2), keepdims=True)
quantile(A, 0.3, axis=1, method='nearest')
quantile(A, 0.3, axis=1, method='midpoint')
quantile(A, 0.3, axis=1, method='lower')
quantile(A, 0.3, axis=1, method='higher')
std(A, axis=1)
sum(K)
sum(U) | np.int32(208)
sum(A, axis=(0, 2))
trapezoid(A, axis=1) | (A[:, 1:] + A[:, :-1]).sum(1) / 2
var(A)
var(I, axis=0)
cross(V, W)
cross(A[:, :, :3], V, axis=-1)
dot(V, W)
dot(A, B.T)
dot(A, 2)
dot(A, S)
einsum('bij,ij->b', A, B)
inner(V, W)
inner(A, B)
kron(I, J)
matmul(A, B.T)
matmul(V, B)
matmul(A, S)
matmul(V, W)
outer(V, W)
outer(I, V)
tensordot(A, B, 2)
tensordot(A, B, [[2], [1]])
vdot(B, P)
trace(B)
trace(A, 1, 1, 2)
arange(5)
arange(1, 4, 0.5)
arange(3, dtype='float32')
array(I)
array([1.0, 2])
bartlett(5)
blackman(5)
empty([2]) | np.zeros([2])
empty_like(I) | np.zeros_like(I)
eye(3, 4, 1)
full([2, 2], 7) | np.full([2, 2], 7.0)
full_like(I, 2)
hamming(5)
hanning(5)
identity(3)
kaiser(5, 2.0)
linspace(0, 2, 5)
linspace(V, W, 4, axis=1)
linspace(0, 2, 4, endpoint=False)
logspace(0, 2, 3)
ones([2, 3])
tri(3, 4, -1)
vander(V)
vander(S, 3, increasing=True)
zeros([2], 'int32')
append(V, W)
append(A, A, axis=1)
broadcast_to(V, (2, 3))
concatenate([I, B], axis=1)
diag(B)
diag(V, -1)
diagonal(A)
diagonal(A, -1, 1, 2)
diff(A, axis=1)
diff(A, n=2)
expand_dims(A, 1)
expand_dims(A, (0, 2))
flip(A)
flip(A, axis=(0, 2))
fliplr(B)
flipud(B)
get_item(A, 1) | A[1]
hstack([V, W])
hstack([B, I])
moveaxis(A, 0, -1)
moveaxis(A, (0, 1), (2, 0))
pad(B, 1)
pad(B, ((1, 0), (0, 2)), constant_values=3)
pad(B, ((1, 0), (0, 2)), mode='reflect')
ravel(A)
repeat(B, 2)
repeat(B, [1, 0, 2], axis=0)
reshape(A, (4, -1))
roll(B, 2)
roll(A, 1, axis=1)
rot90(B)
rot90(A, 2, (1, 2))
rot90(A, 3, (1, 2))
squeeze(A[:, :1])
squeeze(A[:, :1], axis=1)
stack([V, W], axis=1)
swapaxes(A, 0, -1)
tile(A, 2)
tile(B, (2, 1, 3))
transpose(A)
transpose(A, (1, 0, 2))
tril(A)
triu(B, 1)
tril(Q, -1)
vstack([V, W])
argsort(A)
argsort(B, axis=0)
argsort(B, axis=None)
bincount(J[0], minlength=6)
clip(A, -0.5, 0.5)
clip(I, 0, 3)
digitize(A, [0.0, 1.0])
sparse_plus(A) | np.where(A <= -1, 0, np.where(A < 1, (A + 1) ** 2 / 4, A))
isin(I, [1, 2])
isin(I, [1, 2], invert=True)
nan_to_num(N)
nan_to_num(N, nan=3, posinf=1, neginf=2)
searchsorted(S, V)
searchsorted(S, B, side='right')
select([A > 1, A > 0], [A, 2 * A], -1.0)
    | np.select([A > 1, A > 0], [A, 2 * A], np.float32(-1))
sort(A, axis=1)
take(A, [0, -1], axis=1)
take(B, 5)
take_along_axis(A, J[None] - 1, axis=1)
take_along_axis(A, J[None, :2] * 0 - 1, axis=-2)
where(A > 0, A, 0)
where(I, I, 0.5) | np.where(I, I, np.float32(0.5))
logsumexp(A, axis=1) | np.log(np.exp(A).sum(1))
rsqrt(P) | 1 / np.sqrt(P)
relu(A) | np.maximum(A, 0)
relu6(9 * A) | np.clip(9 * A, 0, 6)
sigmoid(A) | 1 / (1 + np.exp(-A))
softmax(A, axis=1) | np.exp(A) / np.exp(A).sum(1, keepdims=True)
log_softmax(A) | A - np.log(np.exp(A).sum(-1, keepdims=True))
silu(A) | A / (1 + np.exp(-A))
softplus(A) | np.log1p(np.exp(A))
softsign(A) | A / (1 + abs(A))
soft_shrink(A) | np.sign(A) * np.maximum(abs(A) - 0.5, 0)
hard_shrink(A) | np.where(abs(A) > 0.5, A, 0)
hard_sigmoid(4 * A) | np.clip(4 * A / 6 + 0.5, 0, 1)
hard_silu(4 * A) | 4 * A * np.clip(4 * A / 6 + 0.5, 0, 1)
hard_tanh(A) | np.clip(A, -1, 1)
tanh_shrink(A) | A - np.tanh(A)
threshold(A, 0.5, 2.0) | np.where(A > 0.5, A, 2)
leaky_relu(A, 0.1) | np.where(A > 0, A, 0.1 * A)
log_sigmoid(A) | -np.log1p(np.exp(-A))
elu(A, 2.0) | np.where(A > 0, A, 2 * np.expm1(A))
elu(A) | np.where(A > 0, A, np.expm1(A))
celu(A, 2.0) | np.where(A > 0, A, 2 * np.expm1(A / 2))
selu(A) | 1.05070098 * np.where(A > 0, A, 1.67326324 * np.expm1(A))
glu(A) | A[..., :2] / (1 + np.exp(-A[..., 2:]))
squareplus(A) | (A + np.sqrt(A * A + 4)) / 2
sparse_sigmoid(A) | np.clip((A + 1) / 2, 0, 1)
one_hot(J - 1, 3) | np.eye(3)[J - 1]
one_hot(J[0] - 1, 3, axis=0, dtype='int32') | np.int32(np.eye(3)[J[0] - 1]).T
multi_hot([[0, 2], [1, 1]], 3) | np.array([[1.0, 0, 1], [0, 1, 0]])
normalize(A) | A / np.linalg.norm(A, axis=-1, keepdims=True)
layer_normalization(A)
    | (A - A.mean(-1, keepdims=True)) / np.sqrt(A.var(-1, keepdims=True) + 1e-7)
layer_normalization(B, S, 1 - S, epsilon=0.1)
    | (B - B.mean(-1)[:, None]) / np.sqrt(B.var(-1)[:, None] + 0.1) * S + 1 - S
rms_normalization(A, S) | A / np.sqrt((A * A).mean(-1, keepdims=True) + 1e-7) * S
batch_normalization(A, V, P[:, 0], 1, W, V)
    | (A - V[:, None]) / np.sqrt(P[:, :1] + 1e-3) * V[:, None] + W[:, None]
binary_crossentropy(K, P[0]) | -np.where(K, np.log(P[0]), np.log(1 - P[0]))
sparse_categorical_crossentropy(J[0][:3], B, from_logits=True)
    | np.log(np.exp(B).sum(-1)) - B[np.arange(3), J[0][:3]]
psnr(P, B, 1.0) | np.float32(-10 * np.log10(np.mean((P - B) ** 2)))
max_pool(A, 2) | A[:, :2].max(1, keepdims=True)
average_pool(A, 2, 1) | (A[:, 1:] + A[:, :-1]) / 2
max_pool(A, 2, data_format='channels_first') | A.reshape(2, 3, 2, 2).max(-1)
conv(A, B[None].transpose(0, 2, 1)) | A @ B.T
conv(A, np.stack([B.T, B.T])) | A[:, :-1] @ B.T + A[:, 1:] @ B.T
depthwise_conv(A, S[None, :, None]) | A * S
separable_conv(A, S[None, :, None], B.T[None]) | (A * S) @ B.T
cholesky(Q @ Q.T + np.eye(3, dtype='f4'))
    | np.linalg.cholesky(Q @ Q.T + np.eye(3, dtype='f4'))
det(Q) | np.linalg.det(Q)
inv(Q) | np.linalg.inv(Q)
lstsq(B.T, S) | np.linalg.lstsq(B.T, S, rcond=None)[0]
norm(A) | np.linalg.norm(A)
norm(A, axis=1) | np.linalg.norm(A, axis=1)
norm(Q, 'fro') | np.linalg.norm(Q)
norm(A, 1, axis=2, keepdims=True) | np.linalg.norm(A, 1, 2, True)
solve(Q, V) | np.linalg.solve(Q, V)
solve(Q, B) | np.linalg.solve(Q, B)
solve_triangular(np.tril(Q) + 2 * np.eye(3, dtype='f4'), V, lower=True)
    | np.linalg.solve(np.tril(Q) + 2 * np.eye(3, dtype='f4'), V)
svd(Q, compute_uv=False) | np.linalg.svd(Q, compute_uv=False)
cast(A, 'int32') | A.astype('i4')
slice(A, [0, 1, 2], [2, 2, 1]) | A[0:2, 1:3, 2:3]
scatter([[0], [2]], V[:2], [4]) | np.float32([1, 0, -2, 0])
segment_sum(V, [0, 1, 0], 3) | np.float32([4, -2, 0])
segment_max(V, [0, 1, 0]) | np.float32([3, -2])
extract_sequences(S, 2, 1) | np.float32([[1, 2], [2, 4], [4, 8]])
fori_loop(0, 4, lambda i, x: x + i, 1) | np.int32(7)
scan(lambda c, x: (c + x, c * x), 1, J[0])[0] | np.int32(1 + J[0].sum())
scan(lambda c, x: (c + x, c), 0.0, V, reverse=True)[1] | np.float32([1, 3, 0])
map(lambda x: 2 * x, B) | 2 * B
while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (0, V))[1] | 8 * V
cond(True, lambda: V, lambda: W) | V
switch(2, [lambda x: x, lambda x: 2 * x, lambda x: 3 * x], V) | 3 * V
unstack(A, axis=1)[1] | A[:, 1]
split(A, 2, axis=2)[1]
split(A, [1], axis=1)[1]
array_split(A, 2, axis=1)[0]
meshgrid(V, S)[1]
meshgrid(V, S, indexing='ij')[0]
unravel_index(J, (4, 2))[0]
top_k(B, 2)[0] | -np.sort(-B)[:, :2]
moments(A, [0, 1])[1] | A.var((0, 1))
eigh(Q + Q.T)[0] | np.linalg.eigh(Q + Q.T)[0]
slogdet(Q)[1] | np.linalg.slogdet(Q)[1]
cumsum(A, axis=1, dtype='int32') | np.cumsum(A.astype('i4'), axis=1)
""".replace("\n    ", " ")
    .strip()
    .splitlines()
)
NARROW = {"float64": "float32", "int64": "int32", "uint64": "uint32"}


def wanted(case: str) -> Any:
    text, _, other = case.partition(" | ")
    names = {**GIVEN, "np": np}
    found = eval(other, names) if other else eval(f"np.{text}", names)
    found = np.asarray(found)
    kept = NARROW.get(found.dtype.name, found.dtype.name)
    return found.astype(kept)


@in_groups(itertools.product(CASES, ["eager", "function", "device"]))
def test_against_numpy(case_and_way: tuple[str, str]) -> None:
    case, way = case_and_way
    code = f"lambda {', '.join(GIVEN)}: ops.{case.partition(' | ')[0]}"
    call = eval(code, {"ops": ops, "np": np})
    if way == "eager":
        found = call(**GIVEN)
    else:
        arrays = (
            "np.",
            "J[",
            "I[",
            "A[",
            "P[",
            "V[",
            "B.T",
            "Q.T",
            "1 + P",
            "4 * A",
            "B[",
        )
        if any(text in case.partition(" | ")[0] for text in arrays):
            pytest.skip("it makes an array of its arguments")
        traced = tf.function(call, autograph=False, jit_compile=way == "device")
        found = traced(**GIVEN)
    expected = wanted(case)
    assert found.dtype.name == expected.dtype.name
    loose = 5e-3 if found.dtype.name == "float16" else 2e-5
    np.testing.assert_allclose(found.numpy(), expected, rtol=loose, atol=loose)


# --- symbolic values

SYMBOLIC = """
exp(x)
add(x, 1)
multiply(2.0, x)
subtract(x, y)
maximum(x, y)
divide(x, [1.0, 2.0, 4.0, 8.0])
power(x, 2)
mean(x, axis=1, keepdims=True)
max(x, axis=(1, 2))
sum(x, axis=-1)
argmax(x, axis=-1)
std(x, axis=1)
cumsum(x, axis=1)
concatenate([x, y], axis=-1)
stack([x, y], axis=1)
reshape(x, (-1, 12))
transpose(x, (0, 2, 1))
expand_dims(x, 1)
squeeze(expand_dims(x, 1), 1)
clip(x, -0.5, 0.5)
where(greater(x, 0), x, 0.1)
take(x, [2, 0], axis=1)
tile(x, (1, 2, 1))
flip(x, axis=1)
repeat(x, 2, axis=1)
split(x, 2, axis=2)[1]
tril(x)
round(x, 1)
swapaxes(x, 1, 2)
moveaxis(x, 1, 2)
relu(x)
softmax(x, axis=1)
gelu(x, approximate=False)
leaky_relu(x, negative_slope=0.1)
log_sigmoid(x)
one_hot(argmax(x, axis=-1), 4)
max_pool(x, 2, padding='same')
average_pool(x, pool_size=2, strides=1)
normalize(x, axis=1)
logsumexp(x, axis=1)
erf(x)
top_k(x, 2)[0]
norm(x, axis=1)
cast(x, 'int32')
stop_gradient(x)
quantile(x, 0.3, axis=1)
tensordot(x, [[1.0], [2.0], [3.0], [4.0]], 1)
trace(x, 0, 1, 2)
""".strip().splitlines()


def applied(case: str, x: Any, y: Any) -> Any:
    return eval(case, {**{n: getattr(ops, n) for n in ops.__all__}, "x": x, "y": y})


@pytest.mark.parametrize("case", SYMBOLIC)
def test_in_a_model_and_its_files(case: str, tmp_path: Path) -> None:
    inputs = [keras.Input((3, 4)), keras.Input((3, 4))]
    model = keras.Model(inputs, applied(case, *inputs))
    x, y = GIVEN["A"], GIVEN["A"][::-1] * 0.7
    expected = applied(case, x, y)
    assert model.output_shape[1:] == expected.shape[1:]
    np.testing.assert_allclose(model([x, y]), expected, rtol=1e-6, atol=1e-6)
    for suffix in (".keras", ".safetensors"):
        model.save(tmp_path / f"m{suffix}")
        other = keras.models.load_model(tmp_path / f"m{suffix}")
        np.testing.assert_allclose(other([x, y]), expected, rtol=1e-6, atol=1e-6)


def test_sizes_of_symbolic_values() -> None:
    x = keras.Input((3, 4))
    batch, *rest = ops.shape(x)
    assert rest == [3, 4] and ops.ndim(x) == 3 and ops.dtype(x) == "float32"
    model = keras.Model(x, ops.reshape(x, (batch, 12)))
    assert model(GIVEN["A"]).shape == (2, 12)


def test_in_a_graph_of_tensorflow_1() -> None:
    with v1.Graph().as_default(), v1.Session() as session:
        fed = v1.placeholder(tf.float32, (2,))
        results = [ops.add(ops.exp(fed), 1.0), ops.mean(fed), ops.one_hot([1], 2)]
        found = session.run(results, {fed: [0.0, 1.0]})
    np.testing.assert_allclose(found[0], np.exp([0, 1]) + 1, rtol=1e-6)
    assert found[1] == 0.5 and found[2].tolist() == [[0.0, 1.0]]


def test_gradients_reach_variables() -> None:
    v = keras.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        total = ops.sum(ops.square([v, v])) + ops.max(v)
    np.testing.assert_array_equal(tape.gradient(total, v), [4.0, 9.0])


def test_a_layer_of_ops_trains_in_a_strategy() -> None:
    class Gate(keras.Layer):
        def build(self, shape: Any) -> None:
            self.w = self.add_weight(shape=(shape[-1], 4), name="w")

        def call(self, x: Any) -> Any:
            a, b = ops.split(ops.matmul(x, self.w), 2, axis=-1)
            steps = ops.fori_loop(0, 2, lambda _, v: v * 0.5 + 1.0, a)
            gate = ops.tanh(steps) * ops.sigmoid(b)
            return ops.concatenate([gate, ops.mean(x, -1, True)], axis=-1)

    x = GIVEN["B"]
    y = x.sum(-1, keepdims=True)

    def losses() -> Any:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((4,)), Gate(), keras.layers.Dense(1)])
        model.compile("adam", "mse")
        return model.fit(x, y, batch_size=3, epochs=3, verbose=0).history["loss"]

    outside = losses()
    with ipu_strategy.IPUStrategy().scope():
        inside = losses()
    np.testing.assert_allclose(inside, outside, rtol=1e-5)
    assert outside[-1] < outside[0]


# --- what is refused


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fft2", "no complex numbers.*NumPy"),
        ("associative_scan", r"keras\.ops\.scan"),
        ("jvp", "GradientTape"),
        ("conv2", "Did you mean 'conv'"),
    ],
)
def test_names_that_are_not_there_say_what_to_use(name: str, words: str) -> None:
    with pytest.raises(AttributeError, match=words):
        getattr(ops, name)


def test_what_does_not_fit() -> None:
    for call, message in (
        (lambda: ops.matmul(1.0, [1.0]), "no scalars"),
        (lambda: ops.quantile([1.0], 0.5, method="middle"), "`method` is one of"),
        (lambda: ops.conv_transpose([[[1.0]]], [[[1.0]]], output_padding=1), "there"),
        (lambda: ops.scan(lambda c, x: (c, x), 0), "must be a step"),
        (lambda: ops.image.resize([1.0], (2, 2)), "height, width, channels"),
        (lambda: ops.image.crop_images(np.ones((2, 2, 1)), 1), "two of these three"),
        (lambda: ops.max_pool([[[1.0]]], 1, data_format="last"), "data_format"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(ValueError, match=r"unsupported type.*dict"):
        ops.exp({"a": 1})
    with pytest.raises(TypeError, match=r"keras\.ops\.eye\(N, .*Received: 2\.5"):
        ops.eye(2.5)
    with pytest.raises(TypeError, match=r"\+: .*NoneType"):
        ops.cond(True, lambda: None + 1, lambda: 1)  # the user's own error
