"""WHAT to remember: blocks of streams, sampled by priority, kept on the accelerator."""
