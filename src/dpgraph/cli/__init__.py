"""The command line. A module for each group of commands; `main` finds the one that is called and loads only that."""

from dpgraph.cli.app import main

__all__ = ["main"]
