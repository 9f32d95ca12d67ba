"""Ray: worker processes on the nodes of a cluster.

from videoload.ray import RayWorkers
"""

from videoload.trainer.ray_workers import RayWorkers

__all__ = ["RayWorkers"]
