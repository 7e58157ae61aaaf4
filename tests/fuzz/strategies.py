"""Damage: trees of plain data with wrong values in wrong places, and bytes cut, flipped, repeated and lying."""

from __future__ import annotations

import copy
import datetime
import functools
import re
from random import Random
from typing import Any

DEEP: Any = functools.reduce(lambda inner, _: [inner], range(200), [])
DEEP_MAPPING: Any = functools.reduce(lambda inner, _: {"a": inner}, range(200), {})
SHARED: Any = functools.reduce(lambda inner, _: [inner] * 9, range(40), [0])  # 9^40 values, written out
WIDE: Any = functools.reduce(lambda inner, _: [inner] * 9, range(4), [0])  # as many as the YAML reader lets pass

NASTY: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 2**31, 2**63, -(2**63) - 1, 10**30, 10**5000),
    *(0.5, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), 1e308, 5e-324),
    *("", " ", "a", "A", "0", "-1", "1e999", "nan", "Infinity", "x" * 300, "9" * 5000, "null", "~"),
    *(
        "\x00",
        "a\x00b",
        "é\n\x1b[2J",
        "line\r\nbreak",
        "\ud800",
        "\u202e",
        "../..",
        "/",
        "*",
        "[a-",
        "%s{0}",
        "a" * 70_000,
    ),
    *([], {}, [[]], [None] * 3, {"": ""}, {"a": {"b": {}}}, {1: 2}, {None: None}, [0] * 50, ["a", "a"]),
    *(DEEP, DEEP_MAPPING, WIDE, b"\xff", datetime.date(2024, 1, 1), (1, 2), {1, 2}),
)
# what JSON can hold, and a file can be written of
JSON_NASTY = tuple(
    value for value in NASTY if not isinstance(value, (bytes, tuple, set, datetime.date)) and value != 10**5000
)


def mangled(tree: Any, random: Random, pool: tuple[Any, ...] = NASTY) -> Any:
    """A copy of `tree` with one to three places replaced, removed, renamed, doubled or moved."""
    box = [copy.deepcopy(tree)]
    for _ in range(random.randint(1, 3)):
        holder, key = _place(box, random)
        choice = random.randrange(8)
        if choice <= 2:
            holder[key] = copy.deepcopy(random.choice(pool))  # later damage must not reach the pool
        elif choice == 3 and holder is not box:
            del holder[key]
        elif choice == 4:
            other, name = _place(box, random)
            holder[key] = copy.deepcopy(other[name])
        elif choice == 5 and isinstance(holder, dict):
            holder[random.choice(("", "a", "name", str(key) + "x", str(key)[:-1], "x" * 300, "\n"))] = holder.pop(key)
        elif choice == 6 and isinstance(holder, list) and holder is not box:
            holder.insert(key, copy.deepcopy(holder[key]))
        else:
            holder[key] = _near(holder[key], random, pool)
    return box[0]


def _place(box: list[Any], random: Random) -> tuple[Any, Any]:
    """A holder and a key in it, found by walking down from the top."""
    holder: Any = box
    key: Any = 0
    while isinstance(holder[key], (dict, list)) and holder[key] and random.random() < 0.85:
        holder = holder[key]
        key = random.choice(list(holder)) if isinstance(holder, dict) else random.randrange(len(holder))
    return holder, key


def _near(value: Any, random: Random, pool: tuple[Any, ...]) -> Any:
    """Something like `value` that may just be wrong."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        if value.bit_length() > 64:
            return -value
        return random.choice((value + 1, value - 1, -value, value * 10**6, value + 0.5, str(value), [value]))
    if isinstance(value, float):
        return random.choice((-value, value * 1e9, value * 1e-9, int(value) if abs(value) < 1e300 else 0, str(value)))
    if isinstance(value, str):
        return random.choice((value + "x", value[:-1], value.upper(), value + "\n", value * 2, [value], {value: value}))
    return copy.deepcopy(random.choice(pool))


TOKENS = (
    *(b"", b"-1", b"0", b"1.5", b"nan", b"NaN", b"inf", b"-inf", b"1e400", b"99999999999999999999", b"2147483648"),
    *(b"9" * 5000, b"null", b"abc", b'"', b"'", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b" ", b"0x10", b"1_0", b"+1"),
)
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")


def damaged(content: bytes, random: Random) -> bytes:
    """`content` with one to three places cut, flipped, repeated or overwritten."""
    for _ in range(random.randint(1, 3)):
        start = random.randint(0, len(content))
        end = min(len(content), start + random.choice((1, 1, 4, 8, 40, 1000)))
        choice = random.randrange(9)
        if choice == 0:
            content = content[:start]
        elif choice == 1:
            content = content[:start] + random.randbytes(end - start) + content[end:]
        elif choice == 2:
            content = content[:start] + content[end:]
        elif choice == 3:
            content = content[:start] + content[start:end] * random.choice((2, 3, 50)) + content[end:]
        elif choice == 4:  # counts and lengths at their largest
            extreme = random.choice(
                (b"\xff\xff\xff\x7f", b"\xff" * 4, b"\xff" * 7 + b"\x7f", b"\0" * 8, b"\x7f\xff\xff\xff")
            )
            content = content[:start] + extreme + content[start + len(extreme) :]
        elif choice == 5:
            content = content[:start] + random.choice(TOKENS) + content[start:]
        elif choice == 6:
            found = list(NUMBER.finditer(content, max(0, start - 200), end + 200))
            if found:
                number = random.choice(found)
                content = content[: number.start()] + random.choice(TOKENS) + content[number.end() :]
        elif choice == 7:
            content = content.replace(b"\n", random.choice((b"\r\n", b"\n\n", b"", b"\r")))
        else:
            content = random.choice(
                (b"", b"\xef\xbb\xbf" + content, content + b"\0", content + content, b"\n" + content)
            )
    return content
