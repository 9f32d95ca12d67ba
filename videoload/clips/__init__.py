"""The definition of one sample: its frames, crop and pixels. Start at `clip_spec`; `clip_params`
draws the random choices.
"""
