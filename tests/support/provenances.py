"""What rows of a result were made by, and whether a later run counts them as its own."""

from videoload.tools.journal import Provenance

KNOWN = Provenance("a model", 5)
PROVENANCES = [
    (KNOWN, True),
    (Provenance("a model"), True),  # the file cannot be read now
    (Provenance("another", 5), False),
    (Provenance(None, 5), False),
    (Provenance("a model", 6), False),
    (Provenance("a model", 5, "a box"), False),
]
