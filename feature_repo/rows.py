"""Values of one entity as few bytes, compressed against a row of the same form, and back without a loss.

A row has a shape and a rest. The shape is what most rows of a view share: names, kinds, texts with a mark in place of
each number, times. It is compressed against the shape of the view's first row. The rest is what they do not share and
what no compression makes shorter: the numbers of lists, and the numbers in texts as their digits and their point.

    row     varint length of the compressed shape · the compressed shape · the rest
    shape   for each value by name: name · kind · varint length · content
    number  varint of 2 · digits + (1 where negative) · number of digits behind the point
"""

import re
import struct
import zlib
from collections.abc import Mapping
from typing import Any

from feature_repo.sdk import ValueProto
from feature_repo.varint import read_varint, varint

WINDOW = -15
MARK = "\x00"
"""Stands for a number in a text; a text that has it is kept as it is."""
NUMBER = re.compile(r"(?<![\w.+-])-?(?:0|[1-9]\d{0,17})(?:\.\d{1,20})?(?![\w.])")
FLOATS, TEXT, OTHER = b"f", b"t", b"v"


def shape_of(values: Mapping[str, Any]) -> bytes:
    """Return the shape of an entity's values, which later rows are compressed against."""
    return _split(values)[0]


def packed(values: Mapping[str, Any], like: bytes) -> bytes:
    """Return the row of an entity's values (name → protobuf), given the shape of another one."""
    shape, rest = _split(values)
    packer = zlib.compressobj(9, zlib.DEFLATED, WINDOW, 9, zlib.Z_DEFAULT_STRATEGY, like)
    short = packer.compress(shape) + packer.flush()
    return varint(len(short)) + short + rest


def unpacked(row: bytes, like: bytes) -> dict[str, Any]:
    """Return the values in what :func:`packed` made.

    Raises:
        ValueError: the row is damaged.
    """
    try:
        size, at = read_varint(row, 0)
        unpacker = zlib.decompressobj(WINDOW, like)
        shape = unpacker.decompress(row[at : at + size]) + unpacker.flush()
        if not unpacker.eof:
            raise IndexError("it ends early")
        return _joined(shape, row, at + size)
    except (zlib.error, IndexError, struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"a row is damaged: {error}") from error


def _split(values: Mapping[str, Any]) -> tuple[bytes, bytes]:
    shape, rest = list[bytes](), list[bytes]()
    for name in sorted(values):
        value = values[name]
        match value.WhichOneof("val"):
            case "float_list_val":
                numbers = value.float_list_val.val
                kind, content = FLOATS, varint(len(numbers))
                rest.append(struct.pack(f"<{len(numbers)}f", *numbers))
            case "string_val" if MARK not in value.string_val:
                text = value.string_val
                kind, content = TEXT, NUMBER.sub(MARK, text).encode()
                rest += map(_number, NUMBER.findall(text))
            case _:
                kind, content = OTHER, value.SerializeToString()
        shape += [varint(len(name.encode())), name.encode(), kind, varint(len(content)), content]
    return b"".join(shape), b"".join(rest)


def _joined(shape: bytes, row: bytes, rest: int) -> dict[str, Any]:
    joined, at = dict[str, Any](), 0
    while at < len(shape):
        size, at = read_varint(shape, at)
        name, kind = shape[at : at + size].decode(), shape[at + size : at + size + 1]
        size, at = read_varint(shape, at + size + 1)
        content, at = shape[at : at + size], at + size
        value = ValueProto()
        if kind == FLOATS:
            count, _ = read_varint(content, 0)
            value.float_list_val.val.extend(struct.unpack_from(f"<{count}f", row, rest))
            rest += 4 * count
        elif kind == TEXT:
            parts = content.decode().split(MARK)
            for place in range(len(parts) - 1):
                digits, rest = read_varint(row, rest)
                scale, rest = read_varint(row, rest)
                parts[place] += _text(digits, scale)
            value.string_val = "".join(parts)
        else:
            value.ParseFromString(content)
        joined[name] = value
    return joined


def _number(text: str) -> bytes:
    digits = text.lstrip("-")
    whole, _, fraction = digits.partition(".")
    return varint(2 * int(whole + fraction) + (text != digits)) + varint(len(fraction))


def _text(number: int, scale: int) -> str:
    digits = str(number // 2).zfill(scale + 1)
    point = len(digits) - scale
    return "-" * (number % 2) + digits[:point] + ("." + digits[point:] if scale else "")
