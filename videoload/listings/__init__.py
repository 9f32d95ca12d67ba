"""Videos and labels as they stand in folders, in the lists of data sets and in tables."""
