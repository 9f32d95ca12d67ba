"""What a deployment needs: image, example trainer, and the files of Compose, Kubernetes and Slurm.

`videoload` never imports from here.
"""
