"""WHEN to explore: the paper's idea, as pure functions of arrays.

variants        the paper's names of variants, both ways
triggers        what may end a period: counter, coin, or a signal of uncertainty
homeostasis     a signal in, switches at a target rate out (Algorithm 1)
controllers     signals in, the mode of each step out, at all four granularities
bandits         non-stationary bandits over settings
metacontroller  which settings the next episode is played with
periods         how much, and in what portions, an episode explored
streams         many streams at once, as pure functions
switch          all of it, batched and stateful, for an agent of your own
rehearsal       a variant played on a made-up stream, to look at
descriptions    what a variant does, in plain English
"""
