# SPDX-License-Identifier: MIT
"""`ipu.tf.nest` and the exception classes."""

import collections
import pickle

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ipu._text import errors as _errors
from ipu.tf import errors, nest

Point = collections.namedtuple("Point", ["y", "x"])

leaves = st.integers() | st.text(max_size=3) | st.none()
structures = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.tuples(inner, inner).map(lambda pair: Point(*pair))
    ),
    max_leaves=12,
)


@given(structures)
def test_packing_undoes_flattening(structure):
    packed = nest.pack_sequence_as(structure, nest.flatten(structure))
    assert packed == structure
    nest.assert_same_structure(structure, packed)


@given(structures)
def test_map_structure_keeps_the_form(structure):
    mapped = nest.map_structure(lambda leaf: (leaf,).__repr__(), structure)
    nest.assert_same_structure(structure, mapped)
    assert nest.flatten(mapped) == [repr((x,)) for x in nest.flatten(structure)]


def test_dicts_flatten_by_sorted_key_and_keep_their_own_order():
    structure = {"b": 1, "a": (2, {"z": 3, "y": 4})}
    assert nest.flatten(structure) == [2, 4, 3, 1]
    packed = nest.pack_sequence_as(structure, [10, 20, 30, 40])
    assert packed == {"b": 40, "a": (10, {"z": 30, "y": 20})}
    assert list(packed) == ["b", "a"]


def test_kinds_of_containers():
    assert nest.flatten(7) == [7]
    assert nest.flatten("ab") == ["ab"]
    array = np.zeros(3)
    assert nest.flatten([array])[0] is array
    assert nest.flatten(Point(1, (2,))) == [1, 2]
    assert type(nest.map_structure(str, Point(1, 2))) is Point
    ordered = collections.OrderedDict([("b", 1), ("a", 2)])
    mapped = nest.map_structure(str, ordered)
    assert type(mapped) is collections.OrderedDict
    assert list(mapped.items()) == [("b", "1"), ("a", "2")]
    default = collections.defaultdict(list, {"a": 1})
    assert nest.map_structure(str, default).default_factory is list
    assert nest.pack_sequence_as((), []) == ()


@pytest.mark.parametrize(
    ("value", "expected"),
    [((), True), ([1], True), ({}, True), (Point(1, 2), True), ("ab", False)],
)
def test_is_nested(value, expected):
    assert nest.is_nested(value) is expected
    assert nest.is_nested(np.zeros(2)) is False


def test_map_over_several():
    assert nest.map_structure(lambda a, b: a - b, [5, (7,)], [1, (2,)]) == [4, (5,)]
    with pytest.raises(ValueError, match="same number of elements"):
        nest.map_structure(max, [1], [1, 2])
    with pytest.raises(ValueError, match="at least one structure"):
        nest.map_structure(max)
    with pytest.raises(TypeError, match="callable"):
        nest.map_structure(3, [1])


@pytest.mark.parametrize(
    ("first", "second", "error", "text"),
    [
        ([1, 2], (1, 2), TypeError, "same sequence type"),
        ([1, [2]], [1, 2], ValueError, "same nested structure"),
        ({"a": 1}, {"b": 1}, ValueError, "same set of keys"),
        ([1], [1, 2], ValueError, "same number of elements"),
        ({"a": [1]}, {"a": [1, 2]}, ValueError, r"\['a'\]"),
    ],
)
def test_structures_that_differ(first, second, error, text):
    with pytest.raises(error, match=text):
        nest.assert_same_structure(first, second)


def test_types_may_be_left_unchecked():
    nest.assert_same_structure([1, 2], (1, 2), check_types=False)
    nest.assert_same_structure({"a": 1}, collections.OrderedDict(a=1))


def test_packing_errors():
    with pytest.raises(ValueError, match="Structure had 2 elements"):
        nest.pack_sequence_as([0, 0], [1])
    with pytest.raises(TypeError, match="not a list or a tuple"):
        nest.pack_sequence_as([0], 1)
    with pytest.raises(TypeError, match="sortable keys"):
        nest.flatten({1: 2, "a": 3})


@pytest.mark.parametrize("name", errors.__all__)
def test_errors_construct_in_both_ways(name):
    kind = getattr(errors, name)
    assert kind is getattr(_errors, name)
    plain = kind("what happened")
    assert plain.message == str(plain) == "what happened"
    assert plain.op is None
    full = kind("node", "op", "what happened")
    assert (full.node_def, full.op, str(full)) == ("node", "op", "what happened")
    assert kind(node_def=None, op=None, message="text").message == "text"
    again = pickle.loads(pickle.dumps(full))
    assert type(again) is kind
    assert again.message == full.message
    assert again.error_code == full.error_code
    assert isinstance(plain, errors.OpError)
