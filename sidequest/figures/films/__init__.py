"""Films of episodes: NumPy pixels, no plotting library for each frame.

film        a frame of the film: the game beside strips of mode, signal and reward
screens     what a game shows, as pixels
video       writing mp4 and gif
"""
