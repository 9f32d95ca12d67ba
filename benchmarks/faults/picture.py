"""docs/kill-test.svg, out of docs/kill-test.json: `python -m benchmarks.faults.picture`.

`python -m benchmarks.faults --out docs/kill-test.json` makes that anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path

from benchmarks.faults.judging import short

DOCS = Path(__file__).parents[2] / "docs"
_LEFT, _WIDE, _HIGH, _TOP = 200, 116, 34, 62
# A word of a cell, and what it means: nothing changed, it is told or left out, the training stands.
_KINDS = {
    "hangs": "bad", "lost": "bad", "error": "told", "another": "told", "no state": "told",
    "left out": "told", "not tried": "none", "": "good",
}  # fmt: skip
_SHORT = {
    r": (\d+) of (\d+) came": r" at \1 of \2", r".*no state.*": "no state",
    r"not tried.*": "not tried",
}  # fmt: skip
_PAGE = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-size="14"
  font-family="system-ui, sans-serif" role="img" aria-label="The kill test">
  <style>
    text {{ fill: #1f2328; }} .ours {{ font-weight: 700; }} .small {{ font-size: 12px; }}
    .good {{ fill: #1a7f37; }} .told {{ fill: #9a6700; }} .bad {{ fill: #cf222e; }}
    .none {{ fill: #6e7781; }}
    @media (prefers-color-scheme: dark) {{ text {{ fill: #e6edf3; }} }}
    .cell {{ fill: #ffffff; text-anchor: middle; }} .head {{ text-anchor: middle; }}
  </style>
  {body}
</svg>
"""


def picture(rows: Mapping[str, Mapping[str, str]]) -> str:
    """The SVG: a row for each loader, a column for each fault."""
    faults = list(next(iter(rows.values())))
    parts = []
    for column, fault in enumerate(faults):
        words, x = fault.split(), _LEFT + _WIDE * (column + 0.5)
        middle = (len(words) + 1) // 2
        parts.append(_text("head small", x, 26, " ".join(words[:middle])))
        parts.append(_text("head small", x, 43, " ".join(words[middle:])))
    for number, (loader, told) in enumerate(rows.items()):
        y = _TOP + _HIGH * number
        kind = "ours" if loader.startswith("videoload") else "other"
        parts.append(_text(kind, 8, y + 21, loader.replace(", own", ", your")))
        for column, fault in enumerate(faults):
            text = short(told[fault])
            kind = next(kind for word, kind in _KINDS.items() if word in text)
            for long, fits in _SHORT.items():
                text = re.sub(long, fits, text)
            x = _LEFT + _WIDE * column
            size = f'width="{_WIDE - 4}" height="{_HIGH - 4}" rx="5"'
            parts.append(f'<rect class="{kind}" x="{x + 2}" y="{y + 2}" {size}/>')
            parts.append(_text("cell small", x + _WIDE / 2, y + 21, text))
    width, height = _LEFT + _WIDE * (len(faults)) + 8, _TOP + _HIGH * len(rows) + 8
    return _PAGE.format(width=width, height=height, body="\n  ".join(parts))


def _text(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(text)}</text>'


def main() -> None:
    """Draw what is known now."""
    rows = json.loads((DOCS / "kill-test.json").read_text())
    (DOCS / "kill-test.svg").write_text(picture(rows))


if __name__ == "__main__":
    main()
