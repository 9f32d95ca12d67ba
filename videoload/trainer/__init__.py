"""The trainer's side: clients, streams, and what users call on them."""
