# SPDX-License-Identifier: MIT
"""Normalisations as functions: numbers against NumPy, variables, what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ipu
from ipu import drop_in, ipu_compiler, scopes
from ipu.ops import normalization_ops
from ipu.tf.compat import v1

X = np.random.default_rng(0).normal(size=(2, 3, 5, 8)).astype(np.float32)


def expected(x: Any, groups: int, strided: bool, epsilon: float) -> Any:
    """Groups of the last axis, in float64."""
    axes = (groups, -1) if not strided else (-1, groups)
    split = x.astype(np.float64).reshape(
        *x.shape[:-1], *np.empty(x.shape[-1]).reshape(axes).shape
    )
    if strided:
        split = np.swapaxes(split, -1, -2)
    over = (*range(1, x.ndim - 1), x.ndim)
    mean, variance = split.mean(over, keepdims=True), split.var(over, keepdims=True)
    result = (split - mean) / np.sqrt(variance + epsilon)
    if strided:
        result = np.swapaxes(result, -1, -2)
    return result.reshape(x.shape)


def test_module() -> None:
    assert ipu.normalization_ops is normalization_ops


def test_old_programs_find_it() -> None:
    drop_in.install()
    try:
        from tensorflow.python.ipu import normalization_ops as served
        from tensorflow.python.ipu.ops.normalization_ops import layer_norm

        assert served.group_norm is normalization_ops.group_norm
        assert layer_norm is normalization_ops.layer_norm
    finally:
        drop_in.uninstall()


@pytest.mark.parametrize("strided", [True, False])
@pytest.mark.parametrize("axis", [1, -1])
def test_groups(strided: bool, axis: int) -> None:
    x = np.moveaxis(X, -1, axis)
    y = normalization_ops.group_norm(
        x, 4, axis, False, False, 1e-3, strided_channel_grouping=strided
    )
    wanted = np.moveaxis(expected(X, 4, strided, 1e-3), -1, axis)
    np.testing.assert_allclose(y, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("name", "groups"), [("layer_norm", 1), ("instance_norm", 8)])
def test_one_group_and_one_for_each_channel(name: str, groups: int) -> None:
    y = getattr(normalization_ops, name)(X, center=False, scale=False, epsilon=1e-3)
    wanted = expected(X, groups, True, 1e-3)
    np.testing.assert_allclose(y, wanted, rtol=2e-5, atol=2e-5)


def test_a_compiled_net_has_the_variables() -> None:
    with v1.Graph().as_default(), v1.Session() as session:
        data = v1.placeholder(np.float32, X.shape)

        def net(x: Any) -> Any:
            first = {"gamma": v1.constant_initializer(3.0)}
            y = normalization_ops.group_norm(
                x, scope="a", param_initializers=first, reduction_axes=[-3, -2]
            )
            loss = v1.reduce_sum(y * X)
            return y, *v1.gradients(loss, v1.trainable_variables())

        with scopes.ipu_scope("/device:IPU:0"):
            run = ipu_compiler.compile(net, [data])
        names = [v.name for v in v1.trainable_variables()]
        session.run(v1.global_variables_initializer())
        y, of_beta, of_gamma = session.run(run, {data: X})
    assert names == ["a/beta:0", "a/gamma:0"]
    plain = expected(X, 2, True, 1.53e-5)
    np.testing.assert_allclose(y, 3.0 * plain, rtol=5e-5, atol=5e-5)
    np.testing.assert_allclose(of_beta, X.sum((0, 1, 2)), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(of_gamma, (X * plain).sum((0, 1, 2)), rtol=1e-4)


def test_scopes_and_collections() -> None:
    with v1.Graph().as_default():
        x = v1.constant(X)
        normalization_ops.layer_norm(x, variables_collections={"beta": ["mine"]})
        normalization_ops.instance_norm(x, trainable=False)
        normalization_ops.instance_norm(x, center=False)
        with pytest.raises(ValueError, match="already exists"):
            normalization_ops.layer_norm(x, scope="LayerNorm")
        normalization_ops.layer_norm(x, scope="LayerNorm", reuse=True)
        assert [v.name for v in v1.get_collection("mine")] == ["LayerNorm/beta:0"]
        assert [v.name for v in v1.trainable_variables()] == [
            "LayerNorm/beta:0",
            "LayerNorm/gamma:0",
            "InstanceNorm_1/gamma:0",
        ]


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"groups": 10}, "Invalid groups 10 for 8 channels."),
        ({"groups": 0}, "Invalid groups 0 for 8 channels."),
        ({"groups": 3}, "8 channels is not commensurate with 3 groups."),
        ({"channels_axis": 4}, "Axis is out of bounds."),
        ({"channels_axis": 0}, "Unsupported data format"),
        ({"channels_axis": 2}, "Unsupported data format"),
    ],
)
def test_refusals(keywords: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        normalization_ops.group_norm(X, **keywords)  # type: ignore[arg-type]


def test_both_orders_of_arguments() -> None:
    x = np.random.RandomState(0).normal(size=(2, 3, 4)).astype(np.float32)
    wanted = ipu.normalization_ops.group_norm(x, 2, -1, center=False, scale=False)
    for order in ((False, False), ([-3, -2], False, False), ((1,), False, False)):
        found = ipu.normalization_ops.group_norm(x, 2, -1, *order)
        np.testing.assert_array_equal(found.numpy(), wanted.numpy())
    for name in ("layer_norm", "instance_norm"):
        function = getattr(ipu.normalization_ops, name)
        one = function(x, -1, False, False)
        other = function(x, -1, [1], False, False)
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_a_small_epsilon_warns() -> None:
    with pytest.warns(UserWarning, match="epsilon=1e-06 is small for float16"):
        normalization_ops.layer_norm(np.float16(X), -1, False, False, 1e-6)
