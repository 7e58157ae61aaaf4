"""Reconstructions of classes beside images of them: never shipped, since images may be faces."""
