"""What people look at in a browser: pages in one file each, that fetch nothing from elsewhere."""
