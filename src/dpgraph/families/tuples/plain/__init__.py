"""Methods on relations."""
