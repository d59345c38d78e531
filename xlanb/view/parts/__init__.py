"""Parts: one file per subject that converts records to plain data for the step view, and to
text.
"""
