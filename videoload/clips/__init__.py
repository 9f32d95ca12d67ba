"""What one sample is: which frames, which part of them, which pixels.

Start at `clip_spec`; `clip_params` makes the random choices.
"""
