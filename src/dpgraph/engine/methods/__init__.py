"""The frame of a method: its specification, the job that it is given, and the loop around its step."""
