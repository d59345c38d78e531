"""HLO text, in (parser) and out (printer)."""
