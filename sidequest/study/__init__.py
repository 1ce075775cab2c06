"""Many runs: the paper's studies by name, and what trains those that are missing.

studies.py    Study: grids of variants x games x seeds; Job: one run; studies.toml has all
scheduler.py  trains what is missing, whatever fails, in this process, or in
workers.py    … processes of this machine, or on
cluster.py    … a Ray cluster, with files sent both ways
estimate.py   how long it will take, from a short measurement
"""
