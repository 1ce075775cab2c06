"""One run, from its settings to finished records.

trainer        the life of every run: build, resume, loop, log, checkpoint, finish
spec           what one run is
build          from settings to an agent
state          the state of a run; random keys; what both runtimes do with a block
ondevice       a population of runs on a JAX-native game: the whole loop compiled
hosted         one run on emulators: the loop on the host
hosted_device  what the device does in a hosted run
emulators      how emulators are grouped, started and watched
checkpoint     what a run needs to resume, on disk; parameters
arrays         arrays on disk, verified when read
memory         how much memory runs need and may use
evaluation     the greedy evaluator, and episodes of an agent that a run has left
tables         from records of iterations to rows of tables
display        what people see during training
process        signals, and one process at a time writes a folder
"""
