"""HOW to act and learn: R2D2, recurrent duelling Q-learning from replayed sequences."""
