"""What came, compared with what comes without a fault. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


class Sample(NamedTuple):
    """A file's number, and the digest of its clip."""

    number: int
    digest: int


class Run(NamedTuple):
    """What a loader gave in an epoch, how it ended ("", the first line of an error, or "hung", with
    what it said), and the longest wait for a batch after the first."""

    samples: Sequence[Sample]
    end: str = ""
    longest_s: float = 0.0


def judge(good: Run, found: Run, *, bad: int | None = None) -> str:
    """How ``found`` differs from ``good``, in a few words. ``bad``: the number of a file that
    cannot be decoded, and may be replaced."""
    words = []
    if found.end:
        after = f" after {len(found.samples)} of {len(good.samples)} samples"
        hung = found.end.startswith("hung")
        words.append((found.end if hung else f"ended ({found.end})") + after)
    counts = Counter(sample.number for sample in found.samples)
    wanted = [sample.number for sample in good.samples if sample.number != bad]
    lost = [number for number in wanted if not counts[number]]
    replaced = len(found.samples) - len(wanted) if bad is not None else 0
    doubled = sum(count - 1 for count in counts.values()) - max(0, replaced)
    if lost and not found.end:
        words.append(f"{len(lost)} lost")
    if doubled > 0:
        words.append(f"{doubled} doubled")
    digests = {sample.number: sample.digest for sample in good.samples}
    wrong = sum(digests[s.number] != s.digest for s in found.samples if s.number in digests)
    if wrong:
        words.append(f"{wrong} wrong")
    rest = [sample for sample in found.samples if sample.number != bad]
    same = [sample.number for sample in good.samples if sample.number != bad]
    if bad is not None and len(rest) == len(good.samples):  # another clip took its place
        del rest[[sample.number for sample in good.samples].index(bad)]
    moved = [sample.number for sample in rest[: len(same)]] != same[: len(rest)]
    if moved and not words:
        words.append("another order")
    if bad is not None and not words:
        left = len(found.samples) < len(good.samples)
        return "it is left out" if left else "it is replaced"
    return ", ".join(words) or "as without it"


def short(words: str) -> str:
    """Without what an error said."""
    found = re.match(r"(ended|hung).* after (\d+) of (\d+) samples", words)
    if found is None:
        return words
    what = "error" if found[1] == "ended" else "hangs"
    return f"{what}: {found[2]} of {found[3]} came" + words[found.end() :]
