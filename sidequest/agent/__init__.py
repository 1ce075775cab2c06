"""HOW to act and learn: R2D2, recurrent duelling Q-learning from replayed sequences.

modes         heads of the network, and each mode's actions: G, XU, XI, XS, Xγ
convolutions  from observations to features: layers and torso
networks      torso, LSTM (step by step and in sequences), duelling heads
actor         network, modes and controller of one environment
scaling       return-based scaling, normalisation statistics
losses        n-step double-Q targets, trace cutting, the loss, priorities
rnd           novelty by random network distillation
learner       the learner's state, and its update
"""
