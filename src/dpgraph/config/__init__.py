"""What to run: config, suites, experiment files, cells. Never imports torch."""
