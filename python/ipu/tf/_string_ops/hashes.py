# SPDX-License-Identifier: MIT
"""The hashes of strings that TensorFlow sorts words into buckets with.

Words must meet the same buckets as there, so the functions are those: FarmHash's
64-bit fingerprint, SipHash-2-4 where there is a key, and MurmurHash64A for the oldest.

Sources: G. Pike, FarmHash (2014); J.-P. Aumasson and D. J. Bernstein, SipHash: a fast
short-input PRF (2012); A. Appleby, MurmurHash2 (2008).
"""

from __future__ import annotations

from struct import unpack_from

_MASK = (1 << 64) - 1
# primes between 2^63 and 2^64, of FarmHash
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
_MURMUR = 0xC6A4A7935BD1E995  # of MurmurHash64A
_FIRST = 81  # the state that long strings begin with


def _word(data: bytes, at: int) -> int:
    """Return eight bytes, the lowest first."""
    value: int = unpack_from("<Q", data, at)[0]
    return value


def _rotated(value: int, right: int) -> int:
    value &= _MASK
    return (value >> right) | (value << (64 - right)) & _MASK


def _folded(value: int) -> int:
    value &= _MASK
    return value ^ (value >> 47)


def _joined(low: int, high: int, factor: int) -> int:
    """Reduce sixteen bytes to eight."""
    first = _folded(((low ^ high) & _MASK) * factor)
    return _folded((high ^ first) * factor) * factor & _MASK


def fingerprint64(data: bytes) -> int:
    """Return FarmHash's fingerprint of a string.

    Returns:
        A number below 2^64, the same on every machine.

    Example:
        >>> fingerprint64(b"a") % 10
        9
    """
    size = len(data)
    if size > 64:
        return _of_many(data)
    factor = _K2 + 2 * size
    if size > 16:
        return _of_pairs(data, factor)
    if size >= 8:
        first, last = _word(data, 0) + _K2, _word(data, size - 8)
        high = (_rotated(first, 25) + last) * factor
        return _joined(_rotated(last, 37) * factor + first, high, factor)
    if size >= 4:
        first, last = unpack_from("<I", data)[0], unpack_from("<I", data, size - 4)[0]
        return _joined(size + (first << 3), last, factor)
    if size:
        low = data[0] + (data[size >> 1] << 8)
        high = size + (data[-1] << 2)
        return _folded(low * _K2 ^ high * _K0) * _K2 & _MASK
    return _K2


def _of_pairs(data: bytes, factor: int) -> int:
    """Return the fingerprint of 17 to 64 bytes: of both ends, twice where it is above
    32."""
    size = len(data)
    is_long = size > 32
    a = _word(data, 0) * (_K2 if is_long else _K1)
    b, c = _word(data, 8), _word(data, size - 8) * factor
    d = _word(data, size - 16) * _K2
    low = _rotated(a + b, 43) + _rotated(c, 30) + d
    high = a + _rotated(b + _K2, 18) + c
    if not is_long:
        return _joined(low, high, factor)
    high = _joined(low, high, factor)
    e, f = _word(data, 16) * factor, _word(data, 24)
    g = (low + _word(data, size - 32)) * factor
    h = (high + _word(data, size - 24)) * factor
    low = _rotated(e + f, 43) + _rotated(g, 30) + h
    return _joined(low, e + _rotated(f + a, 18) + g, factor)


def _mixed(data: bytes, at: int, low: int, high: int) -> tuple[int, int]:
    """Return a state of sixteen bytes with 32 bytes of the string stirred in."""
    w, x, y, z = unpack_from("<4Q", data, at)
    low += w
    high = _rotated(high + low + z, 21)
    total = low + x + y
    return (total + z) & _MASK, (high + _rotated(total, 44) + low) & _MASK


def _of_many(data: bytes) -> int:
    """Return the fingerprint of more than 64 bytes: a state of seven words is stirred
    by blocks of 64, the last of which ends where the string ends."""
    y = (_FIRST * _K1 + 113) & _MASK
    first = _FIRST * _K2 + _word(data, 0)
    state: tuple[int, ...] = (first, y, _folded(y * _K2 + 113) * _K2, 0, 0, 0, 0)
    tail = (len(data) - 1) % 64
    for at in range(0, len(data) - 1 - tail, 64):
        state = _stirred(data, at, state, _K1, 1)
    x, y, z, v0, v1, w0, w1 = state
    factor = _K1 + ((z & 0xFF) << 1)
    v0 += w0 + tail
    state = (x, y, z, v0, v1, w0 + tail + v0, w1)
    x, y, z, v0, v1, w0, w1 = _stirred(data, len(data) - 64, state, factor, 9)
    low = _joined(v0, w0, factor) + _folded(y) * _K0 + z
    return _joined(low, _joined(v1, w1, factor) + x, factor)


def _stirred(
    data: bytes, at: int, state: tuple[int, ...], factor: int, weight: int
) -> tuple[int, ...]:
    """Return the state after a block of 64 bytes."""
    x, y, z, v0, v1, w0, w1 = state
    x = _rotated(x + y + v0 + _word(data, at + 8), 37) * factor
    y = _rotated(y + v1 + _word(data, at + 48), 42) * factor
    x = (x ^ w1 * weight) & _MASK
    y = (y + v0 * weight + _word(data, at + 40)) & _MASK
    z = _rotated(z + w0, 33) * factor & _MASK
    v = _mixed(data, at, v1 * factor, x + w0)
    w = _mixed(data, at + 32, z + w1, y + _word(data, at + 16))
    return (z, y, x, *v, *w)


def siphash24(data: bytes, key: tuple[int, int]) -> int:
    """Return SipHash-2-4: a hash that nobody can foresee without the key.

    Args:
        key: Two numbers below 2^64.

    Returns:
        A number below 2^64.

    Example:
        >>> siphash24(b"a", (1, 2)) != siphash24(b"a", (1, 3))
        True
    """
    words = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261)
    state = [key[0] ^ words[0], key[1] ^ words[1], key[0] ^ words[2]]
    state.append(key[1] ^ 0x7465646279746573)
    whole = len(data) // 8 * 8
    last = int.from_bytes(data[whole:], "little") | (len(data) & 0xFF) << 56
    for word in (*unpack_from(f"<{whole // 8}Q", data), last):
        state[3] ^= word
        _sip_rounds(state, 2)
        state[0] ^= word
    state[2] ^= 0xFF
    _sip_rounds(state, 4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _sip_rounds(state: list[int], count: int) -> None:
    a, b, c, d = state
    for _ in range(count):
        a, c = (a + b) & _MASK, (c + d) & _MASK
        b, d = _rotated(b, 51) ^ a, _rotated(d, 48) ^ c
        a, c = (_rotated(a, 32) + d) & _MASK, (c + b) & _MASK
        b, d = _rotated(b, 47) ^ c, _rotated(d, 43) ^ a
        c = _rotated(c, 32)
    state[:] = a, b, c, d


def joined_fingerprints(first: int, second: int) -> int:
    """Return one fingerprint of two, as crossed features have; a step of MurmurHash64A.

    Args:
        first: A number below 2^64.

    Example:
        >>> joined_fingerprints(1, 2) == joined_fingerprints(2, 1)
        False
    """
    made = first ^ _MURMUR ^ _folded(second * _MURMUR) * _MURMUR
    return _folded(_folded(made * _MURMUR) * _MURMUR)


def murmur64(data: bytes, seed: int = 0xDECAFCAFFE) -> int:
    """Return MurmurHash64A of a string.

    Args:
        seed: The start of the hash; by default TensorFlow's.

    Returns:
        A number below 2^64.

    Example:
        >>> murmur64(b"a") == murmur64(b"b")
        False
    """
    made = seed ^ len(data) * _MURMUR & _MASK
    whole = len(data) // 8 * 8
    for word in unpack_from(f"<{whole // 8}Q", data):
        mixed = _folded(word * _MURMUR) * _MURMUR
        made = (made ^ mixed) * _MURMUR & _MASK
    if whole < len(data):
        made = (made ^ int.from_bytes(data[whole:], "little")) * _MURMUR
    return _folded(_folded(made) * _MURMUR)
