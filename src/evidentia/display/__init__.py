"""Text, progress and plots for users."""
