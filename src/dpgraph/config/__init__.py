"""Config, suites, experiment files and cells: everything that says what runs. Never imports torch."""
