"""HLO text: parser and printer."""
