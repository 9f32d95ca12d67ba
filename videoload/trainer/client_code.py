"""The code of a client's streams: one version of each module, for as long as the client lives.

A worker imports a module once. So a later stream of the same client cannot have another version.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from videoload.errors import TransformError
from videoload.user_code.sources import Code, Source, code_of

_log = logging.getLogger(__name__)


class ClientCode:
    """The sources of the user's modules that this client's streams have named so far."""

    def __init__(self) -> None:
        self._known: dict[str, Source] = {}

    def of(self, functions: Iterable[str], *, listens: bool) -> Code:
        """The code of a new stream with these ``functions``. ``listens``: workers of other hosts
        may import it. Raises TransformError."""
        modules = {name.partition(":")[0] for name in functions}
        code = code_of(modules)
        for name, source in code.sources.items():
            if self._known.setdefault(name, source).text != source.text:
                raise TransformError(
                    f"{source.file} was edited since this client's first stream with it, and its "
                    "workers have imported the code of that time: close this client and make a "
                    "new one"
                )
        if listens and (missing := sorted(modules - code.digests.keys())):
            _log.warning(
                "the source of %s is not found here, so nothing compares the code of workers that "
                "dial in; add its folder to PYTHONPATH", ", ".join(missing),
            )  # fmt: skip
        return code
