"""The session layer: runs, tool calls, messages, context and workspace on top of the engine."""
