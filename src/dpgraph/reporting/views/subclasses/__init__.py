"""Images of the subclasses of a class: never shipped, as galleries."""
