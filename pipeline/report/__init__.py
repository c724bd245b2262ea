"""The report: one self-contained HTML file, drawn from a few small tables of plain numbers (`facts`)."""
