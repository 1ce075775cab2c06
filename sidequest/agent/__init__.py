"""HOW to act and learn: R2D2, recurrent duelling Q-learning from replayed sequences.

heads      what each head of the network predicts, as data
torsos     observations in, features out
lstm       the recurrent core, step by step and in sequences
networks   torso, recurrent core, duelling heads
modes      what each mode does with the Q-values: G, XU, XI, XS, Xγ
actor      network, modes and controller of one stream
targets    n-step double-Q targets, trace cutting, priorities
scaling    return-based scaling
intrinsic  novelty by random network distillation
sequences  what a batch of sequences says: errors, priorities, statistics
learner    loss over all heads, and the update
"""
