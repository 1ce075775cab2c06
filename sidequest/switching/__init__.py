"""WHEN to explore: the paper's idea, as pure functions of arrays.

arrays          what NumPy and JAX do differently
variants        the paper's names of variants: parsing and printing
triggers        what may end a period: counter, coin, or a signal of uncertainty
homeostasis     switches at a target rate, from any signal (Algorithm 1)
controllers     the mode of each step, from signals, at all four granularities
bandits         non-stationary bandits over settings
metacontroller  bandits that choose the settings of each episode
periods         how much, and in what portions, an episode explored
switch          all of it for a batch of environments and an agent of your own
simulation      a variant on synthetic signals
descriptions    what a variant does, in plain English
"""
