"""The worker container: its entry (`python -m services.worker`) and its health probe."""
