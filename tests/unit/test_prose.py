"""Pages, docstrings, comments and messages use the words of the field.

Each pattern is a private word, with the words to use instead. Code, quotations and links are no
prose.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
INSTEAD = {
    r"told|tells?\b(?! apart|:)": "metadata; reports, returns, contains, shows",
    r"says?\b(?= (?:that|which|what|how|who|so))": "reports, states, contains",
    r"goes on|go on|went on": "continues, resumes",
    r"made ones|is made\b|are made\b": "created, generated, built",
    r"nobody": "no worker, no reader, ...",
    r"who(?:m|so)?ever": "the noun that is meant",
    r"dial(?:s|led)? in|dials?|dialled": "connects; a remote worker",
    r"hangs? up|hung up": "disconnects",
    r"heard of": "responsive",
    r"(?:is|are|was|were) away": "not mounted, not responding",
    r"kept|keeps(?! up| \w+ing)": "cached (files, indexes), stored (frames), held",
    r"trainings|a training\b(?! (?:run|script|loop|step|process))": "a training run",
    r"key frames?": "keyframe",
    r"time stamps?": "timestamp",
    r"data sets?": "dataset",
    r"grey|colours?|centred?": "gray, color, center, as in the API",
    r"mirrored": "flipped",
    r"asked as well|granted again": "speculative lease; requeued",
    r"comes|came": "arrives, is delivered, follows",
    r"brings": "contains, adds, gains",
    r"lacks? room": "is full",
    r"anew": "again",
}
PRIVATE = re.compile("|".join(rf"\b(?P<w{i}>{word})\b" for i, word in enumerate(INSTEAD)), re.I)
INSTEAD_OF = dict(enumerate(INSTEAD.values()))

# Not prose: code, link targets, and words of others in quotation marks.
_NOT_PROSE = re.compile(
    r"```.*?```|~~~.*?~~~|``.*?``|`[^`]*`|\]\([^)]*\)|<!--.*?-->|:::.*?\n|https?:\S+|\"[^\"\n]{1,90}\"",
    re.S,
)
PAGES = [
    *(PROJECT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    *sorted((PROJECT / "docs").rglob("*.md")),
    PROJECT / "services/README.md",
    PROJECT / "benchmarks/README.md",
]
DEPLOYMENT = [
    PROJECT / "docker-compose.yml",
    *(
        p
        for kind in ("yml", "yaml", "sbatch", "hcl")
        for p in (PROJECT / "services").rglob(f"*.{kind}")
    ),
    PROJECT / "services/Dockerfile",
]
SOURCES = [
    *sorted((PROJECT / "services").rglob("*.py")),
    *sorted((PROJECT / "videoload").rglob("*.py")),
]


def prose_of_source(path: Path) -> str:
    """The comments and strings of a Python file, on their lines."""
    text = path.read_text()
    lines = [""] * (text.count("\n") + 2)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (" " in token.string and token.type in STRINGS):
            for number, line in enumerate(token.string.splitlines()):
                lines[token.start[0] - 1 + number] += " " + line
    return "\n".join(lines)


STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def prose_of_comments(path: Path) -> str:
    """The comments and texts of a YAML or shell file, on their lines."""
    keep = re.compile(r"(?:^|\s)#.*|(?<=summary: ).*|(?<=action: ).*")
    return "\n".join(" ".join(keep.findall(line)) for line in path.read_text().splitlines())


def private_words(text: str) -> Iterator[str]:
    blank = _NOT_PROSE.sub(lambda found: re.sub(r"[^\n]", "_", found[0]), text)
    for found in PRIVATE.finditer(blank):
        number = next(i for i in INSTEAD_OF if found[f"w{i}"])
        line = blank.count("\n", 0, found.start()) + 1
        yield f"line {line}: {found[0]!r}; instead: {INSTEAD_OF[number]}"


@pytest.mark.parametrize(
    "path", [*PAGES, *DEPLOYMENT, *SOURCES], ids=lambda path: path.relative_to(PROJECT).as_posix()
)
def test_prose_uses_the_words_of_the_field(path: Path) -> None:
    if path.suffix == ".md":
        text = path.read_text()
    else:
        text = (prose_of_source if path.suffix == ".py" else prose_of_comments)(path)
    assert [*private_words(text)] == []
