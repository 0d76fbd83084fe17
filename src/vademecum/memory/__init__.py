"""Memories: what agents and people learnt, kept as Markdown in the home vault, each with a declared reach.

Files are the truth here too: everything in this package reads and writes the vault itself and knows no index.
"""
