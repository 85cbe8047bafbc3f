"""`evidentia stream`: the command, its loop, session, files and view."""
