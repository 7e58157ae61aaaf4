"""Steps of training with and without privacy, clipped-gradient engine, noise, the loop and its checkpoints."""
