"""From what a person wrote to what runs: cells of their methods' own classes, mechanisms, the plan, its costs."""
