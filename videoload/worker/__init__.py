"""What runs in a worker process: it receives leases, decodes and answers. Start at `worker`."""
