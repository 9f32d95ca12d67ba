"""What some tests need and some machines lack."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

# In processes that the test starts; the fixture `tf` is for this one.
needs_tensorflow = pytest.mark.skipif(find_spec("tensorflow") is None, reason="no TensorFlow here")
