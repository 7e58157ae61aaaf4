"""Accountants: functions of numbers that return epsilon, and the named ones of the command line."""
