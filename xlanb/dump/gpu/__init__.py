"""What XLA:GPU and NVIDIA's tools write besides the HLO, as frozen records."""
