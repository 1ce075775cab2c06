"""WHERE the agent acts: JAX-native games, probe tasks, Atari, and anybody's Gymnasium."""
