"""Pages in one file: data stays data, and pictures are pictures."""

import base64
import io
import json
import re
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.thorough import either
from videoload import ClipSpec, SpecError
from videoload.client.contact_sheet import check_drawable
from videoload.client.page import as_json, page, picture
from videoload.clips.sample_spec import one_clip
from videoload.tools import scan_report

REPORT = Path(scan_report.__file__).parent


@settings(max_examples=either(10, 100))
@example("</script><!--<script>")
@given(st.text())
def test_no_text_ends_the_element_that_the_data_stands_in(text: str) -> None:
    shown = page("report", {"name": text}, REPORT)
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', shown, re.S)
    assert found
    assert json.loads(found[1]) == {"name": text}


def test_a_name_that_is_no_utf8_is_told_by_its_escapes() -> None:
    name = b"caf\xe9/\xff.avi".decode(errors="surrogateescape")
    assert json.loads(as_json({name: [(name, 1.5), None]})) == {
        "caf\\udce9/\\udcff.avi": [["caf\\udce9/\\udcff.avi", 1.5], None]
    }


@pytest.mark.parametrize(
    "shown", [page("live"), page("report", None, REPORT)], ids=["live", "report"]
)
def test_a_page_is_one_file_that_may_fetch_nothing_from_elsewhere(shown: str) -> None:
    assert "default-src 'none'" in shown
    assert "/* shared" not in shown
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", shown)


@pytest.mark.parametrize("size", [(72, 96), (71, 97), (2, 32)])
def test_a_picture_shows_the_frame(size: tuple[int, int]) -> None:
    height, width = size
    frame = np.zeros((height, width, 3), np.uint8)
    frame[..., 0] = np.linspace(0, 250, width).astype(np.uint8)
    kind, _, data = picture(frame).partition(",")
    assert kind == "data:image/jpeg;base64"
    with av.open(io.BytesIO(base64.b64decode(data)), "r") as opened:
        [back] = [each.to_ndarray(format="rgb24") for each in opened.decode(video=0)]
    assert back.shape == (height - height % 2, width - width % 2, 3)
    apart = np.abs(back.astype(int) - frame[: back.shape[0], : back.shape[1]])
    assert apart.mean() < 12


@pytest.mark.parametrize(
    "output",
    [((4, 8, 8, 3), "float32"), ((4, 8, 8, 1), "uint8"), ((8, 8, 3), "uint8"), ((3,), "uint8"),
     ((2, 4, 8, 8, 3), "uint8")],
)  # fmt: skip
def test_what_a_transform_makes_is_drawn_if_it_is_pictures(output: tuple[object, str]) -> None:
    check_drawable(one_clip(ClipSpec(4, size=8, transform="m:f")))
    with pytest.raises(SpecError, match=output[1]):
        check_drawable(one_clip(ClipSpec(4, size=8, transform="m:f", output=output)))  # type: ignore[arg-type]
