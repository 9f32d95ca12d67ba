"""The decoding side: a process that decodes for trainers, and what keeps such processes running."""
