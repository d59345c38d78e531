"""GPUs that programs are compiled for, and how many blocks of a kernel they run at once."""
