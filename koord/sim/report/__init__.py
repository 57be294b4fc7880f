"""What runs of the simulator came to: figures, tables and pages. Pure: a page is a text, a table is rows of cells."""
