"""How much of a work videoload decodes: what nobody refers to and no clip shows is left out."""

from __future__ import annotations

from itertools import groupby

from benchmarks.work import Work
from videoload.decoding.decoder import Decoder


def decoded_share(work: Work) -> float:
    """Of the pictures from a key frame to the last one of a clip, as the headers tell."""
    decoder, every, decoded = Decoder(work.root), 0, 0
    for item in work.distinct:
        order = decoder.videos.index(work.files[item.file].path).order
        for group, ordinals in groupby(work.clip.ordinals(item.start), order.group_of):
            wanted = set(ordinals)
            packets = range(order.start(group).packet, max(map(order.packet, wanted)) + 1)
            every += len(packets)
            decoded += sum(not order.left_out(packet, wanted) for packet in packets)
    return decoded / every
