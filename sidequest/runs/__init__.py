"""One run, from start to finish.

spec          what one run is, and what it tells while it goes
keys          random numbers, a stream for each purpose
assembly      from settings to the parts of an agent
pace          how many updates are due after which block
state         what one run is between two rounds, in both runtimes
rounds        what both runtimes do in a round, and what it leaves behind
ondevice      the whole loop compiled; a population of runs by vmap
members       members of a population on the local devices
population    members, and the host's side of their loop
launch        starts runs, or goes on with them, where they belong
train         trains a population, and writes its records
hosted        emulators on the host, everything else on the accelerator
emulators     how emulators are grouped and started
memory        how much of a device replay may have
packing       many small arrays as one
collection    what a visit to a group of emulators does on the device
programs      what the device does in a hosted run
train_hosted  trains one agent on emulators
account       the host's account of such a run
evaluation    the greedy evaluator, and the agent that a run has left
rollout       one episode of a run's agent, step by step
checkpoint    what a run needs to go on, on disk; and parameters
manifest      what a checkpoint says of itself
shards        arrays on disk, read with suspicion
saving        when checkpoints are made, behind the loop's back; what is left at the end
resume        where runs stand, and how they go on
resume_hosted what that means on emulators
breakdown     when updates are not finite
watchdog      when an emulator dies, or does not answer
process       signals, and one process at a time writes a folder
faults        what can end a run before its time, and exit codes
records       tables on disk, written as a run goes
tables        from what rounds leave behind to rows
tensorboard   TensorBoard files from records
display       what a person sees of them
"""
