"""Parts: one file per subject that turns records into plain data for the step view, and into text."""
