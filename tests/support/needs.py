"""What some tests need and some machines do not have."""

from importlib.util import find_spec

import pytest

# For processes that the test starts; the fixture `tf` is for this process.
needs_tensorflow = pytest.mark.skipif(find_spec("tensorflow") is None, reason="no TensorFlow here")
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="no PyTorch here")
needs_lerobot = pytest.mark.skipif(find_spec("lerobot") is None, reason="no LeRobot here")
