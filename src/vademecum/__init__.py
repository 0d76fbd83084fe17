"""One local memory for every coding agent, kept in the user's own Markdown."""
