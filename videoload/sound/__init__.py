"""The sound of a clip's own time."""
