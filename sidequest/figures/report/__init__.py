"""`report.html`: what was run, every figure, the paper's claims, and real episodes.

page        puts the page together
tables      what was run, and what it scored
episodes    the episodes that the strip viewer pages through
markup      text that becomes HTML is escaped by construction
assets/     the page's own HTML, style and script
"""
