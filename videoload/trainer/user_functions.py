"""The functions of a user that a stream names: what the trainer holds is what workers run."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable

from videoload.errors import TransformError
from videoload.processes.fresh_import import fresh_import
from videoload.user_code import objects

_log = logging.getLogger(__name__)


def checked_code(transforms: Iterable[str], *, listens: bool) -> dict[str, str]:
    """Digests of the user's modules behind ``transforms``. ``listens``: workers of other hosts may
    import them. Raises TransformError: what is here, and `decode_serially` runs, is not what an
    import gives."""
    code: dict[str, str] = {}
    for name in transforms:
        module = name.partition(":")[0]
        fresh = fresh_import(name)
        if fresh is not None:
            here = objects.texts(name) if module in sys.modules else fresh.texts
            if told := objects.difference(here, fresh.texts):
                raise TransformError(f"transform {name}: {told}")
            code |= fresh.code
        elif listens:
            _log.warning(
                "%s cannot be imported here, so nothing compares the code of workers that dial in; "
                "add its folder to PYTHONPATH", module,
            )  # fmt: skip
    return code
