"""What every room needs of the system: files, locks, threads, forks, stops, programs."""
