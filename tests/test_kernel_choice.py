# SPDX-License-Identifier: MIT
"""Which kernel serves which product, for each class of processor; and what the
environment says to BLIS."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from ipu import _core, tf
from ipu._device import devices
from ipu.config import IPUConfig, reset_ipu_configuration

# the tiles of each class
OWN = {"generic": "gemm_8x8", "avx2": "gemm_6x16", "avx512": "gemm_12x32"}
# m, n, k, transposed operands, of products that our own tiles serve
PRODUCTS = [
    (32, 256, 784, ""),
    (784, 256, 32, "a"),
    (32, 128, 256, ""),
    (32, 256, 128, "b"),
    (32, 10, 32, ""),
    (512, 256, 784, ""),
    (512, 256, 128, "b"),
    (128, 1024, 1024, ""),
    (1024, 1024, 128, "a"),
    (1024, 10, 128, "a"),
    (512, 512, 512, ""),
    (1024, 1, 128, ""),
    (5, 70, 0, ""),
]
NARROW = [(8, 8, 8, ""), (128, 2, 256, ""), (8, 512, 512, "b"), (5, 7, 0, "")]
LARGE = (1024, 1024, 1024, "")
CLASSES = ["generic", "avx2", "avx512"]


@pytest.mark.parametrize("turned", ["", "a", "b"])
@pytest.mark.parametrize("sizes", [(3, 5, 2), (1, 7, 9), (65, 33, 130), (200, 150, 70)])
def test_products_of_float64_are_those_of_numpy(
    cpu_class: str, sizes: tuple[int, int, int], turned: str
) -> None:
    """By BLIS, with the same bits for every number of threads."""
    m, n, k = sizes
    rng = np.random.default_rng(1)
    a = rng.normal(size=(2, k, m) if turned == "a" else (2, m, k))
    b = rng.normal(size=(n, k) if turned == "b" else (k, n))
    want = np.matmul(
        a.swapaxes(1, 2) if turned == "a" else a, b.T if turned == "b" else b
    )
    before = _core.num_threads()
    found = []
    try:
        for threads in (1, 3):
            _core.set_num_threads(threads)
            y = tf.matmul(a, b, transpose_a=turned == "a", transpose_b=turned == "b")
            found.append(y.numpy())
    finally:
        _core.set_num_threads(before)
    np.testing.assert_allclose(found[0], want, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found[0], found[1])


def best_class() -> str:
    """The class of this processor itself."""
    command = "from ipu import _core; print(_core.cpu_class())"
    variables = {k: v for k, v in os.environ.items() if k != "IPU_CPU_CLASS"}
    run = [sys.executable, "-c", command]
    return subprocess.run(
        run, capture_output=True, text=True, check=True, env=variables
    ).stdout.strip()


@pytest.fixture(params=CLASSES)
def cpu_class(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name = str(request.param)
    monkeypatch.setenv("IPU_CPU_CLASS", name)
    if _core.cpu_class() != name:
        pytest.skip(f"this processor is of class {_core.cpu_class()}")
    return name


def kernels_of(node: str, inputs: list[str], result: str, device: Any = None) -> str:
    """The kernel of one node in a program of its own."""
    params = ", ".join(f"%{i}: {kind}" for i, kind in enumerate(inputs))
    value = len(inputs)
    text = f"block b0({params}) {{\n  %{value} = {node} : {result}\n}} -> (%{value})\n"
    found = re.search(r" kernel +\w+\.(\w+)\(", _core.graph_compile(text, device).text)
    assert found is not None
    return found.group(1)


def kernel_of_product(
    m: int, n: int, k: int, transposed: str, device: Any = None
) -> str:
    a = f"float32[{k},{m}]" if "a" in transposed else f"float32[{m},{k}]"
    b = f"float32[{n},{k}]" if "b" in transposed else f"float32[{k},{n}]"
    flags = ", ".join(
        f"transpose_{x}={str(x in transposed).lower()}" for x in ("a", "b")
    )
    return kernels_of(
        f"matmul(%0, %1) {{{flags}}}", [a, b], f"float32[{m},{n}]", device
    )


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="classes of x86-64")
class TestOnX86:
    @pytest.mark.parametrize("product", PRODUCTS, ids=str)
    def test_the_kernel_of_a_product(
        self, product: tuple[int, int, int, str], cpu_class: str
    ) -> None:
        assert kernel_of_product(*product) == OWN[cpu_class]

    def test_what_is_large_in_every_direction_is_blis_s_where_that_leads(
        self, cpu_class: str
    ) -> None:
        expected = {
            "generic": {"blis_generic"},
            "avx2": {OWN["avx2"]},
            # BLIS's kernels for AVX-512 where its units are as wide
            "avx512": {OWN["avx512"], "blis_skx"},
        }
        assert kernel_of_product(*LARGE) in expected[cpu_class]

    def test_one_switch_keeps_even_those_on_our_tiles(self, cpu_class: str) -> None:
        try:
            kernels = set()
            for everywhere in (False, True):
                options = IPUConfig()
                options.matmuls.same_bits_on_every_cpu = everywhere
                options.configure_ipu_system()
                device = devices.get_device(0).core
                kernels.add(kernel_of_product(*LARGE, device=device))
        finally:
            reset_ipu_configuration()
        assert OWN[cpu_class] in kernels
        assert len(kernels) == (2 if kernel_of_product(*LARGE)[:4] == "blis" else 1)

    def test_a_measurement_may_choose(self, cpu_class: str) -> None:
        product = (512, 512, 512, "")
        try:
            found = []
            for by in ("blis", "tiles"):
                _core.set_products(by)
                found.append(kernel_of_product(*product))
        finally:
            _core.set_products("auto")
        assert found[0].startswith("blis_") and found[1] == OWN[cpu_class]
        with pytest.raises(ValueError, match="expected 'auto', 'tiles' or 'blis'"):
            _core.set_products("mkl")

    @pytest.mark.parametrize("product", NARROW, ids=str)
    def test_half_a_vector_of_columns_takes_narrow_tiles(
        self, product: tuple[int, int, int, str], cpu_class: str
    ) -> None:
        expected = {OWN[cpu_class], OWN["avx2" if cpu_class == "avx512" else cpu_class]}
        assert kernel_of_product(*product) in expected  # where units are of 256 bits

    @pytest.mark.parametrize(
        ("node", "inputs", "result", "name"),
        [
            ("sum(%0) {axes=[1]}", ["float32[9,40]"], "float32[9]", "rows"),
            ("sum(%0) {axes=[0]}", ["float32[9,40]"], "float32[40]", "strips"),
            ("softmax(%0)", ["float32[9,40]"], "float32[9,40]", "rows"),
        ],
    )
    def test_loops_are_those_of_avx2_from_there_on(
        self, node: str, inputs: list[str], result: str, name: str, cpu_class: str
    ) -> None:
        form = "generic" if cpu_class == "generic" else "avx2"
        assert kernels_of(node, inputs, result) == f"{name}_{form}"

    @pytest.mark.parametrize(
        ("node", "inputs"),
        [("exp(%0)", ["float32[9,40]"]), ("add(%0, %1)", ["float32[9,40]"] * 2)],
    )
    def test_element_wise_loops_are_those_of_the_class(
        self, node: str, inputs: list[str], cpu_class: str
    ) -> None:
        assert kernels_of(node, inputs, inputs[0]) == f"elementwise_{cpu_class}"


def test_a_class_above_this_processor_is_that_of_the_processor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("IPU_CPU_CLASS", "avx512")
    assert _core.cpu_class() == best_class()


# --- BLIS_ARCH_TYPE -------------------------------------------------------------------

# of class generic, so that BLIS serves the product; LAPACK stands on BLIS, too
MULTIPLY = """
import numpy as np
from ipu import _core, tf
text = '''block b0(%0: float32[1024,1024], %1: float32[1024,1024]) {
  %2 = matmul(%0, %1) : float32[1024,1024]
} -> (%2)
'''
program = _core.graph_compile(text)
out = program.run([np.ones((1024, 1024), "f4")] * 2)
print(np.unique(np.asarray(out[0])).tolist())
print(np.abs(tf.linalg.qr(np.eye(200) / 2)[1]).diagonal()[:2].tolist())
"""


@pytest.mark.parametrize("value", ["24", "-2", "abc"])
def test_an_architecture_that_the_environment_names_changes_nothing(value: str) -> None:
    """BLIS itself would end the process, or take other kernels."""
    run = subprocess.run(
        [sys.executable, "-c", MULTIPLY],
        capture_output=True,
        text=True,
        env={**os.environ, "IPU_CPU_CLASS": "generic", "BLIS_ARCH_TYPE": value},
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["[1024.0]", "[0.5,", "0.5]"]
