"""The papers' experiments: what is run, how it is run and recorded, and what the records say."""
