"""The paper's claims, and whether the records of a study support them.

catalogue   every claim with its rule, in words and as a function
scores      rules about final scores
amounts     rules about how much agents explore
switching   rules about when they do
verdicts    supported, not supported, or not enough data
cells       which runs may be compared
partners    the variant that another one is held against
measures    the numbers that rules look at
"""
