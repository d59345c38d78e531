"""Sessions, the compilation cache, and the stages of a compilation in order."""
