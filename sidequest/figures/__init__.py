"""Pictures, drawn from records and traces; nothing here runs an agent.

What everything builds on

    look           the colours, and how a figure is made and saved
    files          files of runs and studies, and what is said of torn ones
    reading        the runs below a folder, and their tables
    selection      which variants a figure compares, read off their names
    statistics     final performance, interquartile means, bootstrap intervals
    scales         one scale for the scores of several games
    notes          what a figure says about what is missing

The figures of a study, one module a family; `gallery` lists them all

    granularity    the four granularities, game by game
    aggregate      the same over all games
    curves         learning curves, and figures made of panels of them
    comparisons    informed triggers, off-policy correction, explore modes
    space          how much and in what portions variants explored, and their scores
    episodes       what whole episodes looked like
    starts         the starting mode
    arms           what bandits preferred
    coins          counting steps against drawing a coin
    rates          realised against target switching rates
    uncertainty    every score, interquartile means, probability of improvement

Illustrations that need no runs

    illustrations  figures 1 and 2, the README's picture, one variant's example
    film           films of single episodes

Packages

    claims/        the paper's claims, and whether these records support them
    report/        one page with all of it
"""
