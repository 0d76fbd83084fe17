"""The command line: one module per group of commands, and one that prints."""
