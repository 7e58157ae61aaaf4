"""Methods on images."""
