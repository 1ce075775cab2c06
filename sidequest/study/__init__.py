"""Many runs: the paper's studies by name, and a runner that skips what is done.

grids.py      Study: grids of variants x games x seeds; Job: one run of it
paper.py      which variants each figure of the paper shows
studies.py    all studies by name
planning.py   which runs share a compiled program, and in which order they go
folder.py     a study's folder: study.json, what is done, what failed
conduct.py    runs what is missing, whatever fails: the one policy of all crews
crews.py      where runs go: this process, or
workers.py    … processes of this machine, or
cluster.py    … a Ray cluster, with files shipped both ways (shipping.py)
estimate.py   how long it will take, from a short measurement
board.py      one progress display for all
"""
