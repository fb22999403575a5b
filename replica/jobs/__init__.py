"""Long work: run, stored as it goes, on threads or on workers."""
