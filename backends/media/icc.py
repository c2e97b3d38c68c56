"""Blanks the words in a colour profile and leaves the colours. Pure.

Nothing moves, so that a profile keeps its length wherever it is embedded.
"""

import struct

_HEADER = 128
_TAGS_MOST = 200
_COLOURS = frozenset(
    b"rXYZ gXYZ bXYZ wtpt bkpt rTRC gTRC bTRC kTRC chad lumi cicp chrm "
    b"A2B0 A2B1 A2B2 A2B3 B2A0 B2A1 B2A2 B2A3 D2B0 D2B1 D2B2 D2B3 B2D0 B2D1 B2D2 B2D3 "
    b"gamt pre0 pre1 pre2 view meas tech".split()
)
_WORDS = frozenset(b"desc cprt dmnd dmdd".split())  # readers expect the first two to be there


def blanked(profile: bytes) -> bytes:
    """Return a profile with texts and private parts zeroed; b"" if it cannot be read."""
    try:
        return _blanked(profile)
    except struct.error:
        return b""


def _blanked(profile: bytes) -> bytes:
    (size, count) = struct.unpack_from(">I124xI", profile)
    table = _HEADER + 4 + 12 * count
    if profile[36:40] != b"acsp" or count > _TAGS_MOST or not table <= size <= len(profile):
        return b""
    out = bytearray(len(profile))
    out[:table] = profile[:table]
    out[48:56] = bytes(8)  # maker and model
    out[80:_HEADER] = bytes(_HEADER - 80)  # creator, checksum, reserved
    for at in range(_HEADER + 4, table, 12):
        kind, start, length = struct.unpack_from(">4sII", profile, at)
        if start < table or start + length > size:
            return b""
        if kind in _COLOURS:
            kept = length
        else:
            kept = min(_shape(profile[start : start + length]), length) if kind in _WORDS else 0
        out[start : start + kept] = profile[start : start + kept]
    return bytes(out)


def _shape(tag: bytes) -> int:
    """Return how many bytes describe a text before its letters begin."""
    if tag.startswith(b"mluc"):
        (records,) = struct.unpack_from(">I", tag, 8)
        return int(16 + 12 * min(records, _TAGS_MOST))
    return 12 if tag.startswith(b"desc") else 8
