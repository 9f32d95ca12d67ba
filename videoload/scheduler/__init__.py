"""Which worker owes which clip. Pure: events in, commands out."""
