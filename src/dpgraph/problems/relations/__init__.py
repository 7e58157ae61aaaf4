"""Which entities a relation joins."""
