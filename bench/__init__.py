"""Measures of time and memory, never part of a test."""
