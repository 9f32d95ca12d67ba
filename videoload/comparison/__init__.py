"""This loader beside the usual ones, on the same clips: ``videoload bench``."""
