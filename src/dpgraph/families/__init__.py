"""One folder per family of methods: specification, mechanism, accountant, prepared step, training, audit, look."""
