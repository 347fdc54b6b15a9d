# SPDX-License-Identifier: MIT
"""custom_ops and vertex_edsl; tests/programs/graph_custom.py has them in a program."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu import custom_ops, tf, vertex_edsl
from ipu.ipu_strategy import IPUStrategy
from ipu.tf import errors

C_SOURCE = """
#include <stddef.h>
#include <stdint.h>
#include <string.h>
typedef struct { const void **begin, **end, **capacity; } pointers;
typedef struct { const uint32_t *begin, *end, *capacity; } counts;
typedef struct { const char *data; size_t size; } text;

void Join(const pointers *data, const counts *sizes, const pointers *outputs,
          const text *attributes, const text *name)
{
    float *sums = (float *)outputs->begin[0];
    int32_t *numbers = (int32_t *)outputs->begin[1];
    for (ptrdiff_t i = 0; i < data->end - data->begin; i++) {
        const float *x = data->begin[i];
        sums[i] = 0;
        for (uint32_t k = 0; k < sizes->begin[i]; k++) {
            sums[i] += x[k];
        }
    }
    numbers[0] = (int32_t)(data->end - data->begin);
    numbers[1] = (int32_t)attributes->size;
    numbers[2] = (int32_t)strlen(name->data);
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: Any) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no compiler")
    folder: Path = tmp_path_factory.mktemp("library")
    (folder / "join.c").write_text(C_SOURCE)
    made = folder / "libjoin.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(made), str(folder / "join.c")],
        check=True,
    )
    return made


OUTS = {"output_types": [tf.float32, tf.int32], "output_shapes": [[2], [3]]}


def test_a_function_in_c_at_once_and_on_a_device(library: Path) -> None:
    def join(x: Any, y: Any) -> Any:
        long = "an attribute of more than fifteen characters"
        return custom_ops.cpu_user_operation(
            [x, y], library, OUTS, "abc", "Join", attributes=long
        )

    x, y = tf.ones([3]), tf.constant([[1.0, 2.0], [3.0, 4.0]])
    strategy = IPUStrategy()
    with strategy.scope():
        on_device = strategy.run(tf.function(join, jit_compile=True), (x, y))
    for sums, numbers in (join(x, y), on_device):
        assert sums.numpy().tolist() == [3.0, 10.0]
        assert numbers.numpy().tolist() == [2, 44, 3]


def test_a_gradient_needs_a_function(library: Path) -> None:
    x = tf.Variable(tf.ones([3]))
    with tf.GradientTape() as tape:
        found = custom_ops.cpu_user_operation([x, x], library, OUTS, op_name="Join")
    with pytest.raises(errors.NotFoundError, match="no function 'Join_grad'"):
        tape.gradient(found[0], x)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"library_path": "no.so"}, errors.NotFoundError, "no library 'no.so'"),
        ({"library_path": __file__}, ValueError, "cannot be loaded"),
        ({"op_name": "Other"}, errors.NotFoundError, "no function 'Other'"),
        ({"outs": [tf.float32]}, ValueError, "must be a dict"),
        (
            {"outs": {"output_types": [tf.float32], "output_shapes": []}},
            ValueError,
            "1 types and 0 shapes",
        ),
        (
            {"outs": {"output_types": [tf.float32], "output_shapes": [[None]]}},
            ValueError,
            "fully known",
        ),
        ({"attributes": 3}, ValueError, "Expected attributes to be a 'str' type"),
        ({"inputs_with_gradients": [2]}, ValueError, "from 0 to 1"),
        ({"separate_gradients": True}, NotImplementedError, "one input"),
    ],
)
def test_what_is_wrong_is_named(
    library: Path, change: Any, error: Any, words: str
) -> None:
    given: dict[str, Any] = {"library_path": library, "outs": OUTS, "op_name": "Join"}
    with pytest.raises(error, match=words):
        custom_ops.cpu_user_operation([[1.0], [2.0]], **{**given, **change})


def test_what_poplar_builds_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="cpu_user_operation"):
        custom_ops.precompiled_user_op([1.0], "libop.so")


def test_expressions_are_broadcast_and_have_gradients() -> None:
    x = np.arange(8, dtype=np.float32).reshape(8, 1)
    z = np.arange(8, dtype=np.float32).reshape(1, 8)
    found = custom_ops.codelet_expression_op(
        lambda a, b, c: a * a + b * c, x, np.ones(1, np.float32), z
    )
    np.testing.assert_array_equal(found, x * x + z)
    variable = tf.Variable([2.0, -3.0])
    with tf.GradientTape() as tape:
        y = custom_ops.codelet_expression_op(lambda a: 2 - abs(a) * a, variable)
    assert y.numpy().tolist() == [-2.0, 11.0]
    assert tape.gradient(y, variable).numpy().tolist() == [-4.0, -6.0]


def test_expressions_print_and_have_rules() -> None:
    x = vertex_edsl.PlaceholderVertexExpr("x", "float32")
    assert str(-x + 1) == "((0 - x) + 1)" and (1 - x).getType() == "float32"
    assert "let" in str(vertex_edsl.let(x, lambda y: y + y))
    for wrong in (lambda a: a + "b", lambda a: 3.0, 7):
        with pytest.raises(TypeError):
            custom_ops.codelet_expression_op(wrong, [1.0])
    with pytest.raises(TypeError, match="condition"):
        custom_ops.codelet_expression_op(lambda a: a or 1, [1.0])
    with pytest.raises(ValueError, match="at least one"):
        custom_ops.codelet_expression_op(lambda: 1)
