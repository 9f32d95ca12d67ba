"""Any folder, list, table or LeRobot set becomes one table of rows: a catalog."""
