"""What compilation leaves on disk, for the next process."""
