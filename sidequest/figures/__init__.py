"""Pictures, drawn from records and traces; nothing here runs an agent.

look           the colours, and how a figure is made and saved
strips         the modes of a stream as a coloured strip
example        one variant's example in detail
scenes         what the paper's illustrations show
illustrations  how they show it
curves         learning curves of runs
"""
