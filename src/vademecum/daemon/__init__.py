"""The long-lived half: watching, serving, purging. Nothing here is imported by a command that only asks."""
