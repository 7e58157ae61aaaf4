"""One file per method of a paper: how data, sampler, model, mechanism and trainer combine."""
