"""What the headers of MPEG-1 and MPEG-2 pictures prove. Pure."""

from __future__ import annotations

import re

import numpy as np

from videoload.bitstreams.pictures import (
    INTER,
    INTRA,
    B,
    Packets,
    Pictures,
    are_settings_known,
    by_types,
)

_PICTURE = b"\0\0\1\0"
_SEQUENCE_EXTENSION = re.compile(b"\0\0\1\xb5[\x10-\x1f]")
_PICTURE_EXTENSION = re.compile(b"\0\0\1\xb5[\x80-\x8f]")
_TIME_CODE = re.compile(b"\0\0\1\xb8.{4}", re.DOTALL)  # of a group of pictures
_TYPES = {1: INTRA, 2: INTER, 3: B}
_FRAME = 3  # both fields


def prove_mpeg12(packets: Packets) -> Pictures | None:
    """Each packet a picture, both fields of it; decoding begins where a sequence header stands."""
    types = []
    settings: dict[int, bytes] = {}
    for i in range(len(packets.sizes)):
        data = packets.whole(i)
        at = -1 if data is None else data.find(_PICTURE)
        if data is None or at < 0 or len(data) < at + 6 or data.find(_PICTURE, at + 4) >= 0:
            return None
        kind = _TYPES.get(data[at + 5] >> 3 & 7)
        extension = _PICTURE_EXTENSION.search(data, at)
        # Behind two bytes of the extension, if it is not cut; MPEG-1 has none.
        structure = data[extension.end() + 1 : extension.end() + 2] if extension else b"\3"
        if kind is None or not structure or structure[0] & 3 != _FRAME:
            return None
        types.append(kind)
        if before := _TIME_CODE.sub(b"", data[:at]):
            settings[i] = before
    pictures = by_types(np.array(types))
    if pictures is None or 0 not in settings or not are_settings_known(settings, None, settings):
        return None
    if B in types and (_says_low_delay(settings[0]) or types.index(B) < _second_reference(types)):
        return None  # whether such pictures are shown is the decoder's to say
    starts = [start for start in pictures.starts.tolist() if start in settings]
    return pictures._replace(starts=np.array(starts))


def _says_low_delay(sequence: bytes) -> bool:
    found = _SEQUENCE_EXTENSION.search(sequence)
    return found is not None and sequence[found.end() + 4 : found.end() + 5] >= b"\x80"


def _second_reference(types: list[int]) -> int:
    references = [i for i, kind in enumerate(types) if kind != B]
    return references[1] if len(references) > 1 else len(types)
