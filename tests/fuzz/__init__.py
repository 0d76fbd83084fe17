"""Hostile files and whole hostile trees, made from seeds, put through the real thing, and what has to hold after.

`hostile_text` and `hostile_tree` make them, `promises` and `trial` say what has to hold, `shrink` makes a failure small
enough to read, `cases` counts, times and tells how to run one case again.
"""
