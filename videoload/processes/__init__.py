"""Child processes: started, watched, replaced, stopped."""
