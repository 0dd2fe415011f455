"""The ledger: what a frame did to the world, and in what order. Imports nothing above it."""
