"""The loops: each watches what concerns it, asks its decision what to do, and does it. `run.run` starts them all."""
