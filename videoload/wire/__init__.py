"""What crosses processes: messages, sockets, keys, slots."""
