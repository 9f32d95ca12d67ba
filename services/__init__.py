"""What a deployment needs: one image, the entry points of trainer and worker, a health probe.

`videoload` never imports from here and never reads the environment; these entry points do.
"""
