"""Values and outputs are compared here, on data that a hostile process sent."""

from __future__ import annotations

import json
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.verifiers.code_compare import encode_plain, same_output, same_value
from stepgauge.verifiers.sandbox.plain import decode

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.binary(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.integers() | st.tuples(st.integers()), inner, max_size=3)
        | st.frozensets(st.integers() | st.text(max_size=2), max_size=3)
        | st.sets(st.integers() | st.floats(allow_nan=False), max_size=3)
    ),
    max_leaves=8,
)


@given(PLAIN)
def test_plain_data_travels_unchanged(value):
    sent = json.loads(json.dumps(encode_plain(value)))
    back = decode(sent, lambda ref: pytest.fail("no object"))
    assert back == value
    assert type(back) is type(value)


@given(PLAIN, PLAIN)
def test_equality_is_python_s(left, right):
    assert same_value(encode_plain(left), encode_plain(right), tuples_as_lists=False) == (left == right)
    assert same_value(encode_plain(left), encode_plain(left), tuples_as_lists=True)


@pytest.mark.parametrize(
    ("got", "expected", "equal", "loose"),
    [
        (1, 1.0, True, True),
        (True, 1, True, True),
        (0.1 + 0.2, 0.3, False, False),
        (10**400, 10**400, True, True),
        (10**400, 10**400 + 1, False, False),
        (2**53 + 1, float(2**53), False, False),
        ((1, 2), [1, 2], False, True),
        ([(1, [2])], [[1, (2,)]], False, True),
        ({1: (2,)}, {1: [2]}, False, True),
        ({"a": 1}, [("a", 1)], False, False),
        ({1, 2}, frozenset((2, 1)), True, True),
        ({1, 2}, [1, 2], False, False),
        ({"1": 0}, {1: 0}, False, False),
        ({1.0: 0}, {1: 0}, True, True),
        (b"a", "a", False, False),
        (None, 0, False, False),
        (None, "none", False, False),
        ("nan", math.nan, False, False),
        (math.nan, math.nan, False, False),
        ([math.nan], [math.nan], False, False),
        (math.inf, math.inf, True, True),
        (-math.inf, math.inf, False, False),
        (1 + 0j, 1, True, True),
        (1j, 1, False, False),
        ({"$int": "0x1"}, 1, False, False),
        ("i0x1", 1, False, False),
    ],
)
def test_equality_table(got, expected, equal, loose):
    for tuples_as_lists, verdict in ((False, equal), (True, loose)):
        assert same_value(encode_plain(got), encode_plain(expected), tuples_as_lists=tuples_as_lists) is verdict


@pytest.mark.parametrize(
    "forged",
    [
        {"$ref": 0, "type": "int"},
        {"$int": "4"[:0]},
        {"$int": 4},
        {"$int": "0x4", "$float": "4"},
        {"$float": "four"},
        {"$set": 4},
        {"$dict": [[1]]},
        {"$complex": [4]},
        {"$complex": [4, {"$float": "nan"}]},
        {"$bytes": "zz"},
        {"$eval": "4"},
        {"$tuple": None},
    ],
)
def test_forged_values_are_equal_to_nothing(forged):
    if forged != {"$int": "0x4", "$float": "4"}:  # its first tag counts, and that says 4: a lie that is right
        assert not same_value(forged, 4, tuples_as_lists=True)
    assert not same_value([forged], [5], tuples_as_lists=True)


def test_hostile_values_cost_little():
    started = time.perf_counter()
    colliding = {"$set": [{"$int": hex(k * (2**61 - 1))} for k in range(1, 20_000)]}  # one hash for all of them
    assert not same_value(colliding, {"$set": [1]}, tuples_as_lists=True)
    assert not same_value({"$int": "0x" + "f" * 10**6}, 1, tuples_as_lists=True)
    deep: list = []
    for _ in range(900):
        deep = [deep]
    assert not same_value(deep, [], tuples_as_lists=True)
    assert not same_output("1e999999999 " * 1000, "1 " * 1000)
    assert not same_output("9" * 10**6, "8" * 10**6)
    assert time.perf_counter() - started < 5


def test_test_values_must_be_plain():
    with pytest.raises(TypeError, match="plain data .* got object"):
        encode_plain([object()])


@pytest.mark.parametrize(
    ("got", "expected", "same"),
    [
        ("3\n", "3", True),
        ("  3  \n\n", "3\n", True),
        ("1 2\n3\r\n", "1 2\n3", True),
        ("1.50 2", "1.5 2.0", True),
        ("-0", "0", True),
        ("a 1.0", "a 1", True),
        ("", "", True),
        ("3 1", "3\n1", False),
        ("3\n1\n2", "3\n1", False),
        ("3", "", False),
        ("", "3", False),
        ("a", "A", False),
        ("1.0001", "1", False),
        ("nan", "NaN", False),
        ("1_0", "10", False),
        ("٣", "3", False),
        ("yes 1", "no 1", False),
        ("1\n\n2", "1\n2", False),
    ],
)
def test_outputs(got, expected, same):
    assert same_output(got, expected) is same
