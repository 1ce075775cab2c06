"""Pictures, drawn from records and traces; nothing here runs an agent."""
