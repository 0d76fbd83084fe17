"""One local memory for every coding agent, kept in the user's own Markdown."""

__version__ = "0.1.0"
