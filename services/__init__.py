"""Files for a deployment: image, example trainer, Compose, Kubernetes and Slurm.

`videoload` never imports from here.
"""
