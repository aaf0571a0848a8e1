"""The `durasess` command, one module a verb."""
