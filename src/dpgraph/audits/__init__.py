"""Attacks on the project's own update code: do noise, sampling and clipping give what the accountants claim?"""
