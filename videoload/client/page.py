"""HTML pages: a template for each, a shared style and script, and data.

Strings from files and other hosts are data. The scripts insert them as text, never as markup.
"""

from __future__ import annotations

import base64
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import msgspec
import numpy as np
import numpy.typing as npt
from av.video.frame import VideoFrame

_HERE = Path(__file__).parent
_QUALITY = 7  # of JPEG, 2 is the best and 31 the worst: 3 kB for 96x72


def page(name: str, data: object = None, folder: Path = _HERE) -> str:
    """Return the page ``name`` of a folder, with ``data`` for its script."""
    text = (folder / f"{name}.html").read_text("utf-8")
    for mark, file in (("/* shared style */", "style.css"), ("/* shared script */", "shared.js")):
        text = text.replace(mark, (_HERE / file).read_text("utf-8"))
    # A "<" could end the element that the data stands in.
    return text.replace("/* data */", as_json(data).replace("<", "\\u003c"))


def as_json(data: object) -> str:
    """Return data for a script. What is infinite is null, and bytes of names that are no UTF-8 are
    shown by their escapes."""
    try:
        return msgspec.json.encode(data).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(_encodable(msgspec.to_builtins(data))).decode()


def _encodable(data: Any) -> Any:
    if isinstance(data, dict):
        return {_encodable(name): _encodable(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [*map(_encodable, data)]
    return data.encode(errors="backslashreplace").decode() if isinstance(data, str) else data


def picture(rgb: npt.NDArray[np.uint8]) -> str:
    """Return a frame, uint8 [H, W, 3], as the address of an image in a page."""
    # The JPEG encoder needs whole blocks of chroma: an odd last row or column is left out.
    height, width = (side - side % 2 for side in rgb.shape[:2])
    frame = VideoFrame.from_ndarray(np.ascontiguousarray(rgb[:height, :width]), format="rgb24")
    encoder = av.CodecContext.create("mjpeg", "w")
    encoder.width, encoder.height, encoder.pix_fmt = width, height, "yuvj420p"
    encoder.time_base, encoder.qmin, encoder.qmax = Fraction(1), _QUALITY, _QUALITY
    packets = [*encoder.encode(frame.reformat(format="yuvj420p")), *encoder.encode(None)]
    return "data:image/jpeg;base64," + base64.b64encode(b"".join(map(bytes, packets))).decode()
