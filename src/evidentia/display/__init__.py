"""What people see: text, progress and plots."""
