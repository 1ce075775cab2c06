"""WHERE the agent acts: JAX-native games, probe tasks, and Atari."""
