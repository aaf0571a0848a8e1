"""Many sessions in one directory: create, open, find."""
