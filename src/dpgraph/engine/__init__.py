"""Shared by the families: networks, sampling, training steps, preparation, and the frame of a method."""
