"""Kinds of tests that decide claims. A module declares `KINDS`; a new kind is a module here and its test in config."""
