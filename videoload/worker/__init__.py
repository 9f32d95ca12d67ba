"""Worker processes: started, watched, replaced, stopped; and what runs in them."""
