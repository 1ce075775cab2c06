"""One run, from start to finish.

assembly      from settings to the parts of an agent
ondevice      the whole loop compiled; a population of runs by vmap
train         trains a population, and writes its records
hosted        emulators on the host, everything else on the accelerator
emulators     how emulators are started
collection    what a visit to a group of emulators does on the device
programs      what the device does in a hosted run
train_hosted  trains one agent on emulators
evaluation    the greedy evaluator
checkpoint    parameters on disk
records       tables on disk, written as a run goes
tables        from what rounds leave behind to rows
tensorboard   TensorBoard files from records
display       what a person sees meanwhile
"""
