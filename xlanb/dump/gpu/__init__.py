"""What XLA:GPU and NVIDIA's tools leave beside the HLO, read back as frozen records."""
