"""Figures, films and the report, made from records and traces; nothing here runs an agent.

    data           the records of a study as polars frames
    pairs          which variants are compared with which, read off their names
    statistics     means over games, bootstrap intervals, one scale for several games
    style          the colours, and how a figure is composed and saved

The figures of a study: each is one function that returns the picture with its caption and
its numbers; `gallery` lists them all

    curves         learning curves: game by game, over all games, comparing one choice
    space          how much and in what portions variants explored, and their scores
    episodes       what whole episodes looked like
    switching      the starting mode, counters and coins, bandits, switching rates
    uncertainty    every score, interquartile means, probability of improvement

What is made of them

    claims         the paper's claims, and whether these records support them
    report         one page with all of it

What needs no study

    illustrations  figures 1 and 2, the README's picture, one variant's example
    film           films of single episodes
"""
