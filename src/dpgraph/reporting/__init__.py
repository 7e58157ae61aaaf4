"""Tables, figures, claims and the report: pure functions of the plan, results.parquet and the published values."""
