"""The plan of what runs, from what a person wrote: cells of their methods' classes, mechanisms and costs."""
