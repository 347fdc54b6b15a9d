"""Tensors: creation, operators, indexing, exchange with NumPy and DLPack."""

from __future__ import annotations

import copy
import gc
import operator
import pickle
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from ipu import _core, keras, tf
from ipu.tf._functions.function import DeviceFunction


def test_python_values_take_tensorflow_s_dtypes() -> None:
    assert tf.constant(1).dtype == tf.int32
    assert tf.constant(1.5).dtype == tf.float32
    assert tf.constant([True]).dtype == tf.bool
    assert tf.constant(np.zeros(2)).dtype == tf.float64
    assert tf.constant([1, 2], dtype=tf.float16).dtype == tf.float16


def test_a_number_takes_the_dtype_beside_it() -> None:
    half = tf.constant([1.0], dtype=tf.float16)
    assert (half + 1.0).dtype == tf.float16
    assert (2 * half).dtype == tf.float16
    with pytest.raises(TypeError, match=r"tf\.cast"):
        tf.constant([1]) + 0.5


@pytest.mark.parametrize(
    "name",
    [
        "__add__",
        "__sub__",
        "__mul__",
        "__truediv__",
        "__radd__",
        "__rsub__",
        "__lt__",
        "__ge__",
    ],
)
def test_operators_agree_with_numpy(name: str) -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(3, 1, 4)).astype(np.float32)
    b = rng.normal(size=(5, 1)).astype(np.float32)
    expected = getattr(a, name)(b)
    np.testing.assert_array_equal(
        getattr(tf.constant(a), name)(tf.constant(b)), expected
    )


def test_integer_division_follows_python() -> None:
    a = np.array([7, -7, 7, -7], np.int32)
    b = np.array([2, 2, -2, -2], np.int32)
    np.testing.assert_array_equal(tf.constant(a) // tf.constant(b), a // b)
    np.testing.assert_array_equal(tf.constant(a) % tf.constant(b), a % b)
    np.testing.assert_allclose(tf.constant(a) / tf.constant(b), (a / b).astype("f4"))
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.constant([1]) // tf.constant([0])


KEYS = [
    0,
    -1,
    (1, 2),
    slice(None, None, -1),
    slice(1, None, 2),
    (slice(None), 0),
    (Ellipsis, 1),
    (None, Ellipsis),
    (slice(0, 0),),
    (1, slice(3, 0, -2), None),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_indexing_agrees_with_numpy(key: object) -> None:
    a = np.arange(60).reshape(3, 4, 5)
    np.testing.assert_array_equal(tf.constant(a)[key], a[key])  # type: ignore[index]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_indexing_property(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, max_side=5))
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True))
    a = np.arange(np.prod(shape)).reshape(shape)
    np.testing.assert_array_equal(tf.constant(a)[key], a[key])


@pytest.mark.parametrize("key", [3, -4, (0, 9), (0, 0, 0, 0), (..., ...)], ids=str)
def test_bad_index(key: object) -> None:
    with pytest.raises(IndexError):
        tf.zeros((3, 4, 5))[key]


def test_index_with_a_tensor_gathers() -> None:
    a = np.arange(12).reshape(4, 3)
    np.testing.assert_array_equal(tf.constant(a)[[2, 0]], a[[2, 0]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="not in"):
        tf.gather(tf.constant(a), [4])


def test_numpy_view_is_read_only_and_shares_memory() -> None:
    tensor = tf.constant([1.0, 2.0])
    view = tensor.numpy()
    assert not view.flags.writeable
    assert np.shares_memory(view, np.asarray(tensor))
    assert np.array(tensor, copy=True).flags.writeable
    assert np.asarray(tensor, dtype=np.float64).dtype == np.float64


def test_dlpack_round_trip() -> None:
    tensor = tf.reshape(tf.range(6), (2, 3))
    array = np.from_dlpack(tensor)
    np.testing.assert_array_equal(array, [[0, 1, 2], [3, 4, 5]])
    assert tensor.__dlpack_device__() == (1, 0)
    del tensor
    gc.collect()
    np.testing.assert_array_equal(array, [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(tf.constant(np.from_dlpack(tf.ones(2))), [1, 1])


class Foreign:
    """An array of some other library: DLPack is all that it has."""

    def __init__(self, array: np.ndarray, device: tuple[int, int] = (1, 0)) -> None:
        self.array = array
        self.device = device

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i8", "i4", "u1", "?"])
def test_tensors_take_arrays_of_other_libraries(dtype: str) -> None:
    array = (np.arange(12).reshape(3, 4) % 5).astype(dtype)
    tensor = tf.convert_to_tensor(Foreign(array[::2, ::-1]))
    assert tensor.dtype == tf.as_dtype(array.dtype)
    np.testing.assert_array_equal(tensor, array[::2, ::-1])
    array[:] = 0  # the tensor has a copy
    assert np.asarray(tensor).any()


def test_other_libraries_arrays_in_expressions_and_variables() -> None:
    ones = Foreign(np.ones((2, 2), "f4"))
    np.testing.assert_array_equal(tf.ones((2, 2)) + ones, [[2, 2], [2, 2]])
    np.testing.assert_array_equal(tf.matmul(ones, tf.ones((2, 2))), [[2, 2], [2, 2]])
    np.testing.assert_array_equal(tf.constant([ones, ones])[1], [[1, 1], [1, 1]])
    assert tf.constant(ones, dtype=tf.float16).dtype == tf.float16
    np.testing.assert_array_equal(tf.Variable(ones).numpy(), [[1, 1], [1, 1]])
    data = tf.data.Dataset.from_tensor_slices((ones, Foreign(np.arange(2))))
    assert [int(n) for _, n in data] == [0, 1]
    with pytest.raises(TypeError, match=r"tf\.cast"):
        tf.ones((2,)) + Foreign(np.ones(2, "f8"))


def test_other_devices_arrays_are_refused() -> None:
    ones = Foreign(np.ones(2, "f4"), device=(2, 1))
    with pytest.raises(BufferError, match=r"Foreign on CUDA device \(2, 1\)\. Copy it"):
        tf.constant(ones)
    with pytest.raises(TypeError, match="Foreign of dtype None cannot become a tensor"):
        tf.constant(Foreign(np.array(["a"])))


def test_tensors_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    array = torch.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(tf.constant(array.T), [[0, 3], [1, 4], [2, 5]])
    assert tf.constant(torch.tensor([1])).dtype == tf.int64
    np.testing.assert_array_equal(array + tf.ones((2, 3)), [[1, 2, 3], [4, 5, 6]])
    assert torch.from_dlpack(tf.ones((2,))).tolist() == [1, 1]
    with pytest.raises(TypeError, match=r"requires? grad"):
        tf.constant(array.requires_grad_())
    with pytest.raises(TypeError, match=r"dtype torch\.bfloat16 cannot become"):
        tf.constant(torch.ones(2, dtype=torch.bfloat16))
    with pytest.raises(TypeError, match="meta"):
        tf.constant(torch.ones(2, device="meta"))


def test_numbers_that_a_dtype_does_not_hold() -> None:
    assert tf.constant(2**40).dtype == tf.int64
    assert tf.constant([1, 2**31]).numpy().tolist() == [1, 2**31]
    assert tf.constant(2**40, dtype=tf.float32).numpy() == 2.0**40
    for value, dtype in [(1.5, tf.int32), ([1.5], tf.int32), (0.5, tf.bool)]:
        with pytest.raises(TypeError, match=r"Cannot convert .* to a tensor of dtype"):
            tf.constant(value, dtype=dtype)
    with pytest.raises(TypeError, match="Cannot convert"):
        tf.add(tf.constant([1]), [0.5])
    assert tf.constant([], dtype=tf.int32).shape == (0,)


@pytest.mark.parametrize("value", [None, object(), [None], {1: 2}, 1j])
def test_values_that_are_no_tensor(value: object) -> None:
    with pytest.raises(ValueError, match=r"with an unsupported type"):
        tf.constant(value)
    with pytest.raises(ValueError, match="non-rectangular"):
        tf.constant([[1], [2, 3]])


def test_tensors_show_themselves_in_a_notebook() -> None:
    text = tf.constant([[1.0, 2.0]])._repr_html_()
    assert text == "<pre><b>tf.Tensor</b> (1, 2), float32\n[[1. 2.]]</pre>"
    large = tf.zeros((1000, 1000))._repr_html_()
    assert "(1000, 1000)" in large and len(large) < 1000
    seen = []
    data = tf.data.Dataset.range(2)
    list(data.map(lambda x: (seen.append(x._repr_html_()), x)[1]))
    assert seen[0] == "<pre><b>tf.Tensor</b> (), int64, symbolic</pre>"
    variable = tf.Variable([1, 2], name="<v>")._repr_html_()
    assert (
        variable
        == "<pre><b>tf.Variable</b> &#x27;&lt;v&gt;:0&#x27; (2,), int32\n[1 2]</pre>"
    )
    shown = data.map(lambda x: {"x": tf.cast(x, tf.float32)}).batch(2)._repr_html_()
    assert shown == (
        "<pre><b>Dataset</b> of 1 element\n{&#x27;x&#x27;: float32 (None,)}</pre>"
    )
    assert "endless" in data.repeat()._repr_html_()


def test_an_unused_dlpack_capsule_frees_its_tensor() -> None:
    tensor = tf.ones((2,))
    before = sys.getrefcount(tensor)
    capsule = tensor.__dlpack__(max_version=(1, 0))
    assert sys.getrefcount(tensor) == before + 1
    del capsule
    assert sys.getrefcount(tensor) == before


def test_sequence_protocol() -> None:
    tensor = tf.constant([[1, 2], [3, 4]])
    assert [row.numpy().tolist() for row in tensor] == [[1, 2], [3, 4]]
    assert len(tensor) == 2
    a, b = tf.constant([1.0, 2.0])
    assert float(a + b) == 3.0
    assert bool(tf.constant(True)) and int(tf.constant(3)) == 3
    assert list(range(tf.constant(3))) == [0, 1, 2]
    with pytest.raises(TypeError, match="no length"):
        len(tf.constant(1))
    with pytest.raises(ValueError, match="one element"):
        bool(tf.ones((2,)))


def test_nested_lists_with_tensors_stack() -> None:
    a = tf.constant([1.0, 2.0])
    np.testing.assert_array_equal(tf.constant([a, a * 2, [0, 0]])[2], [0, 0])
    np.testing.assert_array_equal(tf.stack([a, a], axis=1), [[1, 1], [2, 2]])
    np.testing.assert_array_equal(tf.unstack(tf.stack([a, a + 1]))[1], [2, 3])


def test_reshape_errors_name_the_shapes() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\(6,\).*\(4,\)"):
        tf.reshape(tf.range(6), (4,))
    with pytest.raises(ValueError, match="-1"):
        tf.reshape(tf.range(6), (-1, -1))
    assert tf.reshape(tf.range(6), (-1, 3)).shape == (2, 3)


def test_dtype_mismatch_says_cast() -> None:
    with pytest.raises(TypeError, match=r"tf\.cast"):
        tf.add(tf.constant([1.0]), tf.constant([1]))


def test_sum_of_a_sum() -> None:
    assert sum(tf.constant([1.0, 2.0])) == 3.0  # starts from Python's 0


def test_random_ops_repeat_after_a_seed() -> None:
    tf.random.set_seed(7)
    first = tf.random.normal((100,)).numpy()
    second = tf.random.normal((100,)).numpy()
    tf.random.set_seed(7)
    np.testing.assert_array_equal(tf.random.normal((100,)), first)
    assert not np.array_equal(first, second)
    uniform = tf.random.uniform((10000,), 2.0, 4.0).numpy()
    assert uniform.min() >= 2.0 and uniform.max() < 4.0
    assert abs(uniform.mean() - 3.0) < 0.05
    whole = tf.random.uniform((1000,), 0, 5, dtype=tf.int32).numpy()
    assert set(whole) == {0, 1, 2, 3, 4}


def test_dtypes() -> None:
    assert tf.as_dtype("float32") is tf.float32
    assert tf.as_dtype(np.int8) == tf.int8
    assert copy.deepcopy(tf.float32) == tf.float32
    assert tf.float32 == np.float32 and tf.float32 != "int32"
    with pytest.raises(TypeError, match="Known are"):
        tf.as_dtype("float31")


def test_wrong_types_are_clear_errors() -> None:
    with pytest.raises(ValueError, match="there is no op"):
        _core.apply("nothing", ())
    with pytest.raises(ValueError, match="no attribute"):
        _core.apply("neg", (tf.ones(1),), {"nothing": 1})
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 8"):
        tf.zeros((1,) * 9)


def test_too_large_tensor_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        tf.zeros((1 << 31, 1 << 31))


def test_a_part_of_a_known_value_is_known_in_a_trace() -> None:
    known = np.arange(24).reshape(4, 6).astype(np.int32)

    def f(x: tf.Tensor) -> tf.Tensor:
        rows = tf.shape(x)[0]
        assert int(rows) == 3 and int(tf.shape(x)[-1]) == 5
        parts = tf.constant(known)
        for key in (
            (slice(None), 2),
            slice(None, None, -1),
            (1, slice(4, 1, -2)),
            slice(3, 3),
            (Ellipsis, None, 1),
        ):
            np.testing.assert_array_equal(parts[key].numpy(), known[key])
        return x * tf.zeros((rows, 5))

    assert DeviceFunction(f)(tf.ones((3, 5))).shape == (3, 5)


@pytest.mark.parametrize("value", [1.5, 3, True, [[1.0, 2.0]], np.float16([1, 2]), []])
def test_copies_and_pickles(value: Any) -> None:
    tensor = tf.constant(value)
    assert copy.copy(tensor) is tensor and copy.deepcopy({"a": tensor})["a"] is tensor
    again = pickle.loads(pickle.dumps(tensor))
    assert again.dtype == tensor.dtype and again.shape == tensor.shape
    np.testing.assert_array_equal(again, tensor)


def test_a_value_of_a_function_cannot_be_pickled() -> None:
    def function(x: Any) -> None:
        assert copy.copy(x) is x
        pickle.dumps(x)

    with pytest.raises(Exception, match="function"):
        DeviceFunction(function)(tf.constant(1.0))


def test_dlpack_arguments() -> None:
    tensor = tf.constant([[1.0, 2.0]])
    for version in ((1, 0), [1, 0], (0, 8), (2, 3)):
        assert "dltensor" in repr(tensor.__dlpack__(max_version=version))
    for bad in ("1.0", 1, (1,), (1, 2, 3), (1, "0"), [None, 0], {}):
        with pytest.raises(
            TypeError, match=r"max_version=\.\.\.\) must be two integers"
        ):
            tensor.__dlpack__(max_version=bad)
        with pytest.raises(TypeError, match=r"dl_device=\.\.\.\) must be two integers"):
            tensor.__dlpack__(dl_device=bad)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (1, 3), (3, 1), (2, 0), (1, 2, 3)])
def test_orders_of_buffers(shape: tuple[int, ...]) -> None:
    """Whoever asks for Fortran order gets it, or an error."""
    import ctypes

    array = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    tensor = tf.constant(array)
    assert memoryview(tensor).c_contiguous
    assert memoryview(tensor).f_contiguous == array.flags.f_contiguous
    view = (ctypes.c_char * 256)()
    ask = ctypes.pythonapi.PyObject_GetBuffer
    ask.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
    f_contiguous, c_contiguous, any_contiguous = 0x58, 0x38, 0x98
    for flags in (f_contiguous, c_contiguous, any_contiguous):
        if flags == f_contiguous and not array.flags.f_contiguous:
            with pytest.raises(BufferError, match="C order"):
                ask(tensor, view, flags)
        else:
            assert ask(tensor, view, flags) == 0
            ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))


@pytest.mark.parametrize("start", range(4))
@pytest.mark.parametrize("letter", ["ä", "語", "😀"])
def test_long_messages_that_are_not_ascii(letter: str, start: int) -> None:
    message = "x" * start + letter * 2000

    def rows() -> Any:
        yield np.float32(1.0)
        raise ValueError(message)

    spec = tf.TensorSpec((), tf.float32)
    for dataset in (
        tf.data.Dataset.from_generator(rows, output_signature=spec),
        tf.data.Dataset.from_generator(rows, output_signature=spec).prefetch(2),
    ):
        with pytest.raises(ValueError) as caught:
            list(dataset)
        assert str(caught.value) == message


@pytest.mark.parametrize("name", "add sub mul truediv floordiv mod pow matmul".split())
def test_arrays_and_variables_give_tensors(name: str) -> None:
    """As in TensorFlow: an array on the left takes no number out of a tape."""
    array = np.array([[1.5, 2.0], [3.0, 4.0]], np.float32)
    call = getattr(operator, name)
    for variable in (tf.Variable(array + 1), keras.Variable(array + 1)):
        with tf.GradientTape() as tape:
            found = call(array, variable)
        assert isinstance(found, tf.Tensor)
        np.testing.assert_allclose(found, call(array, array + 1), rtol=1e-6)
        assert name == "floordiv" or tape.gradient(found, variable) is not None
        if name != "matmul":
            assert isinstance(call(array[0, 0], variable), tf.Tensor)
            made = keras.Model(k := keras.Input((2,)), call(array[0], k))
            np.testing.assert_allclose(made(array), call(array[0], array), rtol=1e-6)
    with tf.compat.v1.Graph().as_default():
        there = tf.compat.v1.get_variable("v", (2, 2))
        assert not isinstance(call(array, there), np.ndarray)
