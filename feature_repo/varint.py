"""Whole numbers as bytes of seven bits, the lowest first, as protocol buffers write them."""


def varint(number: int) -> bytes:
    """Return the bytes of a number that is not negative."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(source: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins ``at`` a place, and the place behind it; behind the source where it is cut off."""
    number = shift = 0
    while at < len(source):
        byte = source[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
    return number, at + 1
