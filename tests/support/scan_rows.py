"""Rows of a scan, like those of ordinary files."""

from videoload.tools.scan import ScanRow


def row(path: str, label: str = "x", **more: object) -> ScanRow:
    facts: dict[str, object] = {
        "frames": 250, "fps": 25.0, "key_frames": 20, "codec": "mpeg4", "width": 320,
        "height": 240, "header_frames": 250, "packets": 250,
    }  # fmt: skip
    return ScanRow(path, label, **(facts | more))  # type: ignore[arg-type]
