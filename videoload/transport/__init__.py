"""What crosses processes: messages, sockets, keys, and shared memory. Start at `messages`."""
