"""The frames of a clip: sought, decoded, and written by `pixels`. Start at `decoder`."""
