"""WHEN to explore: the paper's idea, as pure functions of arrays.

arrays          what NumPy and JAX do differently
variants        the paper's names of variants: parsing and printing
triggers        what may end a period: counter, coin, or a signal of uncertainty
homeostasis     switches at a target rate, from any signal (Algorithm 1)
controllers     the mode of each step, from signals, at all four granularities
bandits         non-stationary bandits over settings
metacontroller  bandits that choose the settings of each episode
periods         how much, and in what portions, an episode explored
switch          all of it for a batch of environments: two pure functions
shell           `Switch`, the same for an agent of your own
reports         what a switch is doing and has done
simulation      a variant on synthetic signals
descriptions    what a variant does, in plain English
"""
