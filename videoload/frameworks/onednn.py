"""A warning where TensorFlow computes slowly without a word.

TensorFlow computes with oneDNN by default only on processors with AVX-512. On others, 3D
convolutions take three to a hundred times as long, and the stream's figures say only that decoding
keeps up.
"""

from __future__ import annotations

import logging
import platform
from functools import cache

_log = logging.getLogger(__name__)


@cache
def check_onednn() -> None:
    """Warn, once per process, if TensorFlow computes on a processor and without oneDNN."""
    import tensorflow as tf

    try:
        # TensorFlow has no public name for this.
        from tensorflow.python.util import _pywrap_util_port as port
    except ImportError:
        return
    if (
        platform.machine() != "x86_64"
        or port.IsMklEnabled()
        or tf.config.list_physical_devices("GPU")
    ):
        return
    _log.warning(
        "TensorFlow computes without oneDNN on this processor, so 3D convolutions may take many "
        "times as long: set TF_ENABLE_ONEDNN_OPTS=1 in the environment before TensorFlow is "
        "imported"
    )
