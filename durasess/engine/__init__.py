"""Ordered durable events and snapshots in a directory. Knows nothing of agents."""
