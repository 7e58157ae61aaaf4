"""PATE: students of teachers that vote in private (Papernot et al. 2017, 2018; Zhang, chapter 3)."""
