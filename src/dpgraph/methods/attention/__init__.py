"""Graph attention without privacy, as the literature trains it."""
