"""Gains over a reference, by mean degree and homophily."""
