"""The stages of the workflow: jobs, what runs in them, what they leave, and where they stand."""
