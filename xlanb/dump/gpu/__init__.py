"""What XLA:GPU and NVIDIA's tools write in addition to HLO, as frozen records."""
