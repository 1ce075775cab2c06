"""WHAT to replay: sequences, sampled by priority, stored on the accelerator."""
