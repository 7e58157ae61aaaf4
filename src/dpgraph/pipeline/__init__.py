"""The stages of the workflow: jobs, what runs in them, what they write, and their status."""
