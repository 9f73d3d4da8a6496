"""While an agent is live: claim, resume, step, call, suspend."""
