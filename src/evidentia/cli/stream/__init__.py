"""`evidentia stream`: the command, its loop, its session of models, its files and its view."""
