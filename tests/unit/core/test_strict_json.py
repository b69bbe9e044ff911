"""JSON as plait accepts it."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given, strategies as st

from plait.core.strict_json import JsonInvalid, dump, json_type, parse, parse_object, plain, text_of
from tests.helpers.strategies import any_text, json_values

whole_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(whole_json)
def test_what_is_dumped_is_parsed(value: object) -> None:
    """Whole JSON goes out and comes back unchanged, as text and as bytes."""
    text = dump(value)

    assert value == parse(text) == parse(text.encode())


@given(json_values)
def test_dumped_text_can_always_be_encoded(value: object) -> None:
    """A half character is escaped, so that UTF-8 carries every dumped text; any JSON reader gets it back."""
    text = dump(value)

    assert value == json.loads(text.encode())


@given(st.text() | st.binary())
def test_arbitrary_input_parses_or_is_invalid(text: str | bytes) -> None:
    """No text and no bytes make parsing fail in any other way than `JsonInvalid`."""
    try:
        value = parse(text)
    except JsonInvalid:
        return
    assert value == parse(dump(value))


@pytest.mark.parametrize("number", ["1" + "0" * 40, "-9007199254740993", "18446744073709551616"])
def test_integers_are_exact(number: str) -> None:
    """An integer of any size keeps every digit, both ways."""
    assert int(number) == parse(number)
    assert number == dump(int(number))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "[1e400]", "9" * 5000])
def test_numbers_that_are_none_are_refused(number: str) -> None:
    """Not-a-number, infinity, and what would become infinity or will not be converted, are invalid."""
    with pytest.raises(JsonInvalid):
        parse(number)


@pytest.mark.parametrize(
    "text",
    [
        '"\\ud800"',
        '"\\uDC00 x"',
        '{"\\ud83d": 1}',
        '[[{"a": "\\ude00\\ud83d"}]]',
        pytest.param('"\ud800"', id="raw"),
        b'"\xed\xa0\x80"',
        b'"\\ud800"',
        '"\\ud800"'.encode("utf-16"),
        '"x"'.encode("utf-32"),
        b'"\xff"',
    ],
)
def test_half_characters_are_refused(text: str | bytes) -> None:
    """A lone surrogate is invalid however it comes: escaped, raw, encoded, or in another encoding."""
    with pytest.raises(JsonInvalid):
        parse(text)


def test_whole_pairs_are_characters() -> None:
    """An escaped surrogate pair is one character; a doubled backslash begins no escape."""
    assert ["😀", "\\ud800"] == parse('["\\ud83d\\ude00", "\\\\ud800"]')


@pytest.mark.parametrize("depth", [300, 900, 5_000, 200_000])
def test_deep_nesting_never_escapes_as_something_else(depth: int) -> None:
    """However deep a text is nested, it is parsed or called invalid."""
    for text in ("[" * depth + '"\\ud83d\\ude00"' + "]" * depth, '{"a":' * depth + "1" + "}" * depth, "[" * depth):
        try:
            parse(text)
        except JsonInvalid:
            continue


def test_a_byte_order_mark_of_a_file_is_skipped() -> None:
    """A file that an editor began with a byte order mark is read all the same."""
    assert {"a": 1} == parse(b'\xef\xbb\xbf{"a": 1}')


@pytest.mark.parametrize(
    "text, words",
    [
        ("{", "at character 1"),
        ('{"a": 1,}', "at character"),
        (b'"ab\xff"', "not UTF-8 at byte 3"),
        ("NaN", "NaN is not a JSON number"),
        ("1e999", "1e999 is too large"),
        ("", "at character 0"),
    ],
)
def test_the_place_is_named(text: str | bytes, words: str) -> None:
    """The refusal says what is wrong and where."""
    with pytest.raises(JsonInvalid, match=words):
        parse(text)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x", {(1, 2): 3}, [10**5000]], ids=range(6))
def test_what_json_has_not_is_not_dumped(value: object) -> None:
    """Nothing is written that could not be read again."""
    with pytest.raises(JsonInvalid):
        dump(value)


def test_a_circle_is_not_dumped() -> None:
    """A value that holds itself is invalid, not an endless loop."""
    circle: list[object] = []
    circle.append(circle)

    with pytest.raises(JsonInvalid):
        dump(circle)


@pytest.mark.parametrize(
    "text, word",
    [("null", "null"), ("true", "a boolean"), ("1.5", "a number"), ('"a"', "a string"), ("[1]", "an array")],
)
def test_only_an_object_is_an_object(text: str, word: str) -> None:
    """Where an object is wanted, any other value is named by its type."""
    with pytest.raises(JsonInvalid, match=f"not {word}"):
        parse_object(text)
    assert word == json_type(json.loads(text))


def test_the_last_of_equal_keys_counts() -> None:
    """A repeated key is no error; the last value counts."""
    assert {"a": 2} == parse_object('{"a": 1, "a": 2}')
    assert "an object" == json_type({})


@given(json_values)
def test_plain_leaves_json_alone(value: object) -> None:
    """JSON is already plain."""
    assert value == plain(value)


class _Broken:
    def __str__(self) -> str:
        raise RuntimeError("no words")


foreign = st.recursive(
    st.complex_numbers() | st.floats() | st.binary(max_size=3) | st.integers() | any_text | st.builds(_Broken),
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.integers() | any_text | st.tuples(st.integers()), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(foreign)
def test_plain_makes_anything_json(value: object) -> None:
    """Whatever a program hands over, its plain form is JSON and comes back from JSON unchanged."""
    made = plain(value)

    assert made == json.loads(json.dumps(made))


def test_plain_ends_where_values_do_not() -> None:
    """A circle, a pit and a number without end become words."""
    circle: dict[str, object] = {}
    circle["me"] = circle
    pit: list[object] = []
    for _ in range(sys.getrecursionlimit() * 2):
        pit = [pit]

    assert "dict" == plain(circle)
    assert "list" == plain(pit)
    assert hex(10**5000) == plain(10**5000)
    assert {"1": [1, 2], "nan": "nan"} == plain({1: (1, 2), float("nan"): float("nan")})


def test_text_of_anything_is_text() -> None:
    """A value that cannot say itself is called by its type."""
    assert "_Broken" == text_of(_Broken())
    assert "3" == text_of(3)
