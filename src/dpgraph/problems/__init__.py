"""Kinds of data sets with what is learnt from them: one folder for each."""
