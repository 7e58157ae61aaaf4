"""What families share: networks, sampling, training steps, preparation, and the frame of a method."""
